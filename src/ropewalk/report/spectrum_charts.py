"""The rotary spectrum before and after each method: how long a pair takes to turn, and which angles it reaches."""

import math
from typing import Any

from ropewalk.report.chart_parts import BELOW, INK, axes, level, line, styled
from ropewalk.report.look import Look

SEEN, UNSEEN = "#c8ccd2", "#b84300"
EQUAL = 1e-9  # relative: what differs by rounding alone is not unseen


def wavelengths(report: dict[str, Any]) -> dict[str, Any]:
    """Tokens a turn of each pair under each method; a pair that stands still has none."""
    data = [
        line(method["method"], range(len(inv_freq)), [wavelength(f) for f in inv_freq], look, {"method": index})
        | {"hovertemplate": "%{y:,.4g}"}
        for index, method, look, inv_freq in _turning(report)
    ]
    layout = axes("pair", "wavelength, tokens a turn") | {"hovermode": "x unified"}
    layout["xaxis"]["unifiedhovertitle"] = {"text": "pair %{x}"}
    layout["yaxis"] |= {"type": "log", "exponentformat": "none", "tickformat": ",d", "dtick": 1}
    for name in ("native", "target"):
        level(layout, report[f"{name}_length"], f"{name} length, {report[f'{name}_length']:,}")
        layout["annotations"][-1]["y"] = math.log10(report[f"{name}_length"])  # annotations alone take logarithms
    return {"data": data, "layout": layout}


def arcs(report: dict[str, Any]) -> dict[str, Any]:
    """The share of a turn that each pair makes: trained on, and reached at the target under one method a state."""
    native = report["inv_freq"]
    seen = [share(f, report["native_length"]) for f in native]
    data = [
        _bars("seen in training", seen, SEEN, 0.9)
        | {"hovertemplate": "pair %{x}: trained on %{y:.0%} of a turn<extra></extra>"}
    ]
    for index, method, look, inv_freq in _turning(report):
        reached = [share(f, report["target_length"]) for f in inv_freq]
        data += _reached(method["method"], seen, reached, look, index)
    layout = axes("pair", "share of a turn") | {"barmode": "overlay", "hovermode": "closest", "bargap": 0.1}
    layout["yaxis"] |= {"range": [0, 1.02], "tickformat": ".0%"}
    layout |= {"legend": BELOW, "margin": {**layout["margin"], "b": 70}}
    return {"data": data, "layout": layout}


def share(inv_freq: float, length: int) -> float:
    """How much of a whole turn a pair covers within `length` tokens, at most 1."""
    return min(1.0, inv_freq * length / (2 * math.pi))


def unseen(report: dict[str, Any], inv_freq: list[float]) -> list[float]:
    """The share of a turn, a pair, that positions to the target reach and training never did."""
    pairs = zip(report["inv_freq"], inv_freq, strict=True)
    shares = [(share(f, report["native_length"]), share(g, report["target_length"])) for f, g in pairs]
    return [after - before if after > before * (1 + EQUAL) else 0.0 for before, after in shares]


def frequencies_of(report: dict[str, Any], method: dict[str, Any]) -> list[float] | None:
    """A method's frequencies at the target; the unscaled model's are the native ones, and crop has none of its own."""
    found: list[float] | None = report["inv_freq"] if method["method"] == "none" else method.get("inv_freq")
    return found


def _turning(report: dict[str, Any]) -> list[tuple[int, dict[str, Any], Look, list[float]]]:
    return [
        (index, method, look, inv_freq)
        for index, method, look in styled(report, report["methods"])
        if (inv_freq := frequencies_of(report, method))
    ]


def wavelength(inv_freq: float) -> float | None:
    """Tokens a turn; None for a pair that stands still."""
    return 2 * math.pi / inv_freq if inv_freq > 0 else None


def _reached(name: str, seen: list[float], reached: list[float], look: Look, index: int) -> list[dict[str, Any]]:
    """Two bars a pair: within what was trained on, and hatched, what was not."""
    new = [after - before if after > before * (1 + EQUAL) else 0.0 for before, after in zip(seen, reached, strict=True)]
    within = [after - beyond for after, beyond in zip(reached, new, strict=True)]
    meta = {"state": index}
    inside = _bars("reached at the target, seen", within, look.light, 0.5)
    inside |= {"meta": meta, "hovertemplate": "pair %{x}: reaches %{y:.0%} of a turn that was seen<extra></extra>"}
    outside = _bars("reached at the target, unseen", new, UNSEEN, 0.5)
    outside["marker"] |= {"pattern": {"shape": "/", "fgcolor": INK, "bgcolor": UNSEEN, "size": 5, "solidity": 0.3}}
    outside |= {
        "base": within,
        "meta": meta,
        "hovertemplate": "pair %{x}: unseen %{customdata:.1%} of a turn<extra></extra>",
    }
    return [inside, outside | {"customdata": new}]


def _bars(name: str, values: list[float], colour: str, width: float) -> dict[str, Any]:
    x = list(range(len(values)))
    return {"type": "bar", "name": name, "x": x, "y": values, "width": width, "marker": {"color": colour}}
