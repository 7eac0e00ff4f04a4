"""What the interactive charts of a page share: plotly's JSON in the colours of a light page."""

import html
import math
from collections.abc import Sequence
from typing import Any

from ropewalk.report.look import Look, looks

FEW = 40  # points of a line, up to which each gets a marker
INK, GRID, MARK, FAINT = "#333333", "#dddddd", "#595959", "#9c9c9c"
BELOW = {"orientation": "h", "x": 0, "y": 0, "yref": "container", "yanchor": "bottom", "traceorder": "normal"}
NOTE = {"showarrow": False, "font": {"size": 12, "color": MARK}}


def names(report: dict[str, Any]) -> list[str]:
    """Every method of a report, measured or screened, once; charts know them by their index here."""
    screened = (report.get("probe") or {}).get("methods", [])
    return list(dict.fromkeys(method["method"] for method in (*report["methods"], *screened)))


def styled(report: dict[str, Any], methods: Sequence[dict[str, Any]]) -> list[tuple[int, dict[str, Any], Look]]:
    """Each of `methods`, with its index and its look."""
    every = names(report)
    look = looks(every)
    return [(every.index(method["method"]), method, look[method["method"]]) for method in methods]


def line(name: str, x: Sequence[Any], y: Sequence[Any], look: Look, meta: dict[str, Any]) -> dict[str, Any]:
    """One method's line, with markers where they are few."""
    return {
        "type": "scatter", "name": html.escape(name), "x": list(x), "y": list(y), "meta": meta,
        "mode": "lines+markers" if len(x) <= FEW else "lines", "showlegend": False,
        "line": {"color": look.light, "dash": look.dash, "width": 2},
        "marker": {"color": look.light, "symbol": look.symbol, "size": 7, "line": {"color": look.light, "width": 1.5}},
    }  # fmt: skip


def axes(x: str, y: str) -> dict[str, Any]:
    """A layout without a background, whose texts have the page's ink."""
    axis = {"gridcolor": GRID, "linecolor": MARK, "zeroline": False, "automargin": True}
    return {
        "xaxis": {**axis, "title": {"text": x}, "showline": True},
        "yaxis": {**axis, "title": {"text": y}},
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 10, "r": 26, "t": 24, "b": 10},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": FAINT, "activecolor": MARK},
        "shapes": [], "annotations": [],
    }  # fmt: skip


def positions(layout: dict[str, Any], report: dict[str, Any], said: str = "%{x:,}") -> None:
    """The x axis from 0 to the target, marked at round parts of the native length; `said` heads what hovering shows."""
    native, target = report["native_length"], report["target_length"]
    step = native / 8 * 2 ** max(0, math.ceil(math.log2(target / native)))
    layout["xaxis"] |= {
        "range": [0, 1.02 * target],
        "dtick": step,
        "tickformat": ",d",
        "unifiedhovertitle": {"text": said},
    }


def native_line(layout: dict[str, Any], native: int, name: str = "native length") -> None:
    """A dotted line over the whole height at `native`."""
    mark = {"color": MARK, "dash": "dot", "width": 1.5}
    layout["shapes"].append(
        {"type": "line", "x0": native, "x1": native, "y0": 0, "y1": 1, "yref": "paper", "line": mark}
    )
    at = {"x": native, "y": 1, "yref": "paper", "xanchor": "center", "yanchor": "bottom"}
    layout["annotations"].append(NOTE | at | {"text": f"{name}, {native:,}"})


def level(layout: dict[str, Any], value: float, name: str) -> None:
    """A dotted line over the whole width at `value`."""
    mark = {"color": MARK, "dash": "dot", "width": 1.5}
    layout["shapes"].append({"type": "line", "x0": 0, "x1": 1, "xref": "paper", "y0": value, "y1": value, "line": mark})
    at = {"x": 0, "xref": "paper", "y": value, "xanchor": "left", "yanchor": "bottom"}
    layout["annotations"].append(NOTE | at | {"text": name})
