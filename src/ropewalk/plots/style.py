"""One look for every figure: each method keeps its colour wherever it appears."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = {  # at least 3 : 1 against white, and apart for readers who do not tell red from green
    "none": "#1a1a1a",
    "crop": "#767676",
    "native": "#1a1a1a",
    "linear": "#b84300",
    "ntk": "#b98900",
    "ntk-critical": "#cf62a8",
    "yarn": "#0072b2",
    "yarn-paper": "#429bd2",
    "llama3": "#006e51",
    "mrrope": "#5b2fb0",
    "dynamic": "#4d3826",
    "dynamic-linear": "#8f1040",
    "self-extend": "#00707a",
    "dual-chunk": "#7a6a00",
}
SPARE = "#555555"


def figure(width: float, height: float, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure outside pyplot, so that no global state and no display is involved."""
    drawn = Figure(figsize=(width, height), layout="constrained")
    axes = drawn.subplots(rows, 1, squeeze=False)[:, 0].tolist()
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.25, linewidth=0.6)
    return drawn, axes


def line_style(method: str) -> dict[str, Any]:
    """Colour and dashes of a method's line: the baselines are dashed."""
    baseline = method in ("none", "crop", "native")
    return {"color": COLOURS.get(method, SPARE), "linestyle": "--" if baseline else "-", "linewidth": 1.6}
