"""What the pictures have in common: the report's look, lines and heat maps as plotly's JSON."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ropewalk.plots.comparison import COLOURS as ENCODINGS
from ropewalk.plots.style import COLOURS
from ropewalk.report.chart_parts import BELOW, axes
from ropewalk.report.chart_parts import INK as INK
from ropewalk.report.chart_parts import MARK as MARK
from ropewalk.report.charts import DARK as REPORT
from ropewalk.report.look import DARK as METHODS

ACCENT, OTHER, THIRD, PALE = "#2a6fbb", "#b84300", "#006e51", "#b4bac2"
LOW, MIDDLE, HIGH = "#2166ac", "#f7f7f7", "#b2182b"
DIVERGING = [[0, LOW], [0.5, MIDDLE], [1, HIGH]]
RISING = [[0, MIDDLE], [1, LOW]]
LIGHTER = {  # of the encodings' colours, those too dark for a dark page
    "sinusoidal": "#c4a98f",
    "learned": "#e8898c",
    "shaw": "#b3a6e6",
    "t5": "#4fbf84",
    "alibi": "#f09a4e",
    "rope": "#5b8fe0",
    "rope-partial": "#7db4ee",
    "rope-proportional": "#45c8e2",
    "rope-window": "#b5d2ee",
}
DARK = {  # what a colour becomes on a dark page
    **REPORT,
    **{COLOURS[name]: dark for name, dark in METHODS.items()},
    **{ENCODINGS[name]: lighter for name, lighter in LIGHTER.items()},
    **{ACCENT: "#6ea8e6", OTHER: "#e8702a", THIRD: "#2bb389", PALE: "#4a4e55"},
    **{LOW: "#5aa0e8", MIDDLE: "#1d2126", HIGH: "#ee6a5f"},
}
DIGITS = 6  # behind the point, of what is drawn


def plain(values: Tensor) -> Any:
    """Numbers as lists, rounded to what can be seen; infinities, which JSON lacks, as gaps."""
    rounded = values.detach().double().mul(10**DIGITS).round().div(10**DIGITS)
    return _gaps(rounded.tolist())


def _gaps(values: Any) -> Any:
    if isinstance(values, list):
        return [_gaps(value) for value in values]
    return values if abs(values) < float("inf") else None


def line(
    name: str, x: Sequence[Any], y: Sequence[Any], colour: str = ACCENT, dash: str = "solid", width: float = 2
) -> dict[str, Any]:
    """A line without markers."""
    return {
        "type": "scatter", "mode": "lines", "name": name, "x": list(x), "y": list(y),
        "line": {"color": colour, "dash": dash, "width": width},
    }  # fmt: skip


def dot(x: Any, y: Any, colour: str = OTHER, symbol: str = "circle", size: int = 11, name: str = "") -> dict[str, Any]:
    """One marked point."""
    marker = {"color": colour, "symbol": symbol, "size": size, "line": {"width": 2, "color": colour}}
    return {
        "type": "scatter", "mode": "markers", "x": [x], "y": [y], "name": name, "marker": marker,
        "hoverinfo": "skip", "showlegend": bool(name),
    }  # fmt: skip


def heatmap(
    z: Any, *, low: float | None, high: float | None, scale: list[list[Any]] = DIVERGING, **more: Any
) -> dict[str, Any]:
    """Colours by value, row 0 on top (see `turned`); `more` has plotly's other keys."""
    bar = {"thickness": 12, "outlinewidth": 0, "tickfont": {"color": INK}}
    return {"type": "heatmap", "z": z, "zmin": low, "zmax": high, "colorscale": scale, "colorbar": bar, **more}


def layout(x: str, y: str, *, legend: bool = False, **more: Any) -> dict[str, Any]:
    """The report's layout; with a legend below the picture."""
    made = axes(x, y) | {"showlegend": legend, "hovermode": "closest", "uirevision": "kept"}
    if legend:
        made |= {"legend": BELOW, "margin": {**made["margin"], "b": 70}}
    return made | more


def turned(made: dict[str, Any]) -> dict[str, Any]:
    """The same layout with its rows from the top down, as matrices are written, and without grid lines."""
    made["yaxis"] |= {"autorange": "reversed", "showgrid": False}
    made["xaxis"] |= {"showgrid": False}
    return made
