"""One look for every figure: each method keeps its colour wherever it appears."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = {
    "none": "#1a1a1a",
    "crop": "#9a9a9a",
    "native": "#1a1a1a",
    "linear": "#c44e52",
    "ntk": "#dd8452",
    "ntk-critical": "#b8860b",
    "yarn": "#2a6fbb",
    "yarn-paper": "#64b5cd",
    "llama3": "#2e8b57",
    "mrrope": "#8172b3",
    "dynamic": "#937860",
    "dynamic-linear": "#da8bc3",
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
