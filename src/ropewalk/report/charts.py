"""The interactive charts of an extension's page, as plotly's JSON in the colours of a light page.

Every line and band has a `meta` that the page's script filters by: `method`, its index in the report, and
where a chart has several states, `state`. Names are escaped, since plotly reads some HTML in its texts.
"""

import html
from typing import Any

from ropewalk.report.chart_parts import (
    BELOW,
    FAINT,
    GRID,
    INK,
    MARK,
    axes,
    level,
    line,
    names,
    native_line,
    positions,
    styled,
)
from ropewalk.report.curve_chart import BAND, TOLERATED, curves
from ropewalk.report.look import Look, faint, looks
from ropewalk.report.spectrum_charts import SEEN, UNSEEN, arcs, wavelengths

READS = 1.0  # nats of gain from which a copy counts as read
DARK = {
    INK: "#d0d0d0",
    GRID: "#3a3d42",
    MARK: "#b0b0b0",
    FAINT: "#7d7d7d",
    TOLERATED: "#22392f",
    SEEN: "#4a4e55",
    UNSEEN: "#e8702a",
}


def charts(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Each chart that `report` has the numbers for, by name: `data`, `layout`, and layouts by state in `states`."""
    made = {
        "curves": curves(report),
        "probe": probe(report),
        "lengths": lengths(report),
        "reading": reading(report),
        "wavelengths": wavelengths(report),
        "arcs": arcs(report),
    }
    return {name: chart for name, chart in made.items() if chart["data"]}


def dark_colours(report: dict[str, Any]) -> dict[str, str]:
    """What each colour of the charts becomes on a dark page."""
    own = looks(names(report)).values()
    return {
        **DARK,
        **{look.light: look.dark for look in own},
        **{faint(look.light, BAND): faint(look.dark, BAND * 1.5) for look in own},
    }


def lengths(report: dict[str, Any]) -> dict[str, Any]:
    """How far each method is of use: a bar, with how far it holds, the interval of that, and how far it reads."""
    judged = [(m, look) for _, m, look in styled(report, report["methods"]) if m.get("usable_length") is not None]
    if not judged:
        return {"data": []}
    rows = list(range(len(judged)))
    layout = axes("tokens", "")
    positions(layout, report)
    layout["yaxis"] |= {"tickvals": rows, "ticktext": [html.escape(_short(m["method"])) for m, _ in judged]}
    layout["yaxis"] |= {"range": [len(rows) - 0.4, -0.6], "showgrid": False}
    layout |= {"hovermode": "closest", "barmode": "overlay", "height": 110 + 42 * len(rows)}
    layout |= {"legend": BELOW, "margin": {**layout["margin"], "b": 70}}
    native_line(layout, report["native_length"])
    return {"data": _bars(judged, rows), "layout": layout}


def _bars(judged: list[tuple[dict[str, Any], Look]], rows: list[int]) -> list[dict[str, Any]]:
    methods = [method for method, _ in judged]
    holds = [method["holds_to"] for method in methods]
    marks = {"color": INK, "size": 11, "line": {"width": 2, "color": INK}}
    bars: dict[str, Any] = {
        "type": "bar", "orientation": "h", "name": "usable", "y": rows, "x": [m["usable_length"] for m in methods],
        "width": 0.55, "marker": {"color": [look.light for _, look in judged]}, "opacity": 0.75,
        "hovertemplate": "usable to %{x:,}<extra></extra>",
    }  # fmt: skip
    interval = {"type": "data", "symmetric": False, "color": INK, "thickness": 1.5}
    interval |= {"array": [h["high"] - h["value"] for h in holds], "arrayminus": [h["value"] - h["low"] for h in holds]}
    held: dict[str, Any] = {
        "type": "scatter", "mode": "markers", "name": "holds to, 95 % interval", "y": rows,
        "x": [h["value"] for h in holds], "error_x": interval, "marker": {**marks, "symbol": "diamond-tall-open"},
        "customdata": [[h["low"], h["high"]] for h in holds],
        "hovertemplate": "holds to %{x:,} (%{customdata[0]:,} to %{customdata[1]:,})<extra></extra>",
    }  # fmt: skip
    read: dict[str, Any] = {
        "type": "scatter", "mode": "markers", "name": "reads to", "y": rows, "x": [m["reads_to"] for m in methods],
        "marker": {**marks, "symbol": "circle-open"}, "hovertemplate": "reads to %{x:,}<extra></extra>",
    }  # fmt: skip
    return [bars, held] + ([read] if any(m["reads_to"] is not None for m in methods) else [])


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:23]}…"


def reading(report: dict[str, Any]) -> dict[str, Any]:
    """The gain of a copy by its distance."""
    data = []
    for index, method, look in styled(report, report["methods"]):
        readings = method.get("reading") or []
        x, y = [r["distance"] for r in readings], [r["gain"] for r in readings]
        if x:
            drawn = line(method["method"], x, y, look, {"method": index})
            data.append(drawn | {"hovertemplate": "%{y:.2f}"})
    layout = axes("distance to the original, tokens", "gain of a copy, nats a token") | {"hovermode": "x unified"}
    positions(layout, report, "%{x:,} tokens away")
    native_line(layout, report["native_length"])
    level(layout, READS, "reads from here up")
    return {"data": data, "layout": layout}


def probe(report: dict[str, Any]) -> dict[str, Any]:
    """The probe of a screening: excess by the position in the end of the texts."""
    data = []
    for index, method, look in styled(report, (report.get("probe") or {}).get("methods", [])):
        x, y = zip(*((part["end"], part["nll"] - part["windowed"]) for part in method["parts"]), strict=True)
        data.append(line(method["method"], x, y, look, {"method": index}) | {"hovertemplate": "%{y:.3f}"})
    layout = axes("position, tokens", "above the nearest tokens, nats") | {"hovermode": "x unified"}
    layout["xaxis"] |= {"tickformat": ",d", "unifiedhovertitle": {"text": "up to %{x:,}"}}  # the end of the texts alone
    return {"data": data, "layout": layout}


def drawn_methods(chart: dict[str, Any]) -> set[int]:
    """The methods that have a line of their own in `chart`, by index."""
    return {trace["meta"]["method"] for trace in chart["data"] if "method" in trace.get("meta", {})}
