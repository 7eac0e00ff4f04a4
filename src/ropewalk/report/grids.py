"""Retrieval by length and depth, one grid a method and number of keys."""

from dataclasses import dataclass
from typing import Any

from ropewalk.report.chart_parts import styled
from ropewalk.report.measured_tables import exact


@dataclass(frozen=True)
class Grid:
    """One grid.

    Attributes:
        method: its index among `names`.
        title: the method's name, and the keys asked for at a depth.
        lengths: one a column.
        rows: for each depth, its cells; None where that length has no key at that depth.
    """

    method: int
    title: str
    lengths: list[int]
    rows: dict[float, list[dict[str, Any] | None]]


def grids(report: dict[str, Any]) -> list[Grid]:
    """Every grid that the report has the numbers for; colours are to one scale over all of them."""
    every = [r for method in report["methods"] for r in method.get("retrieval") or []]
    top = max((r["gain"] for r in every), default=0.0)
    return [
        _grid(index, method["method"], [r for r in method["retrieval"] if r["needles"] == needles], top)
        for index, method, _ in styled(report, report["methods"])
        for needles in sorted({r["needles"] for r in method.get("retrieval") or []})
    ]


def _grid(index: int, name: str, found: list[dict[str, Any]], top: float) -> Grid:
    lengths, needles = sorted({r["length"] for r in found}), found[0]["needles"]
    at = {(r["depth"], r["length"]): _cell(r, top) for r in found}
    rows = {d: [at.get((d, length)) for length in lengths] for d in sorted({r["depth"] for r in found})}
    return Grid(index, f"{name}, {needles:,} key{'s' if needles != 1 else ''} a depth", lengths, rows)


def _cell(found: dict[str, Any], top: float) -> dict[str, Any]:
    """What a cell shows: its gain, the share found word for word, and how much of the colour it gets."""
    share = min(1.0, max(0.0, found["gain"] / top)) if top > 0 else 0.0
    return {"gain": f"{found['gain']:+.1f}", "exact": exact(found), "share": round(share, 3)}
