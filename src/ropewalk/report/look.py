"""How each method is drawn on a page: a colour for light and for dark, dashes and a marker, all of its own."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from ropewalk.plots.style import COLOURS


@dataclass(frozen=True)
class Look:
    """One method's line, which stays the same in every chart.

    Attributes:
        light, dark: colours, at least 3 : 1 against the page.
        dash: plotly's name of the dashes.
        symbol: plotly's name of the marker; "-open" at its end leaves it unfilled.
    """

    light: str
    dark: str
    dash: str
    symbol: str

    @property
    def dashes(self) -> str:
        """The dashes as SVG has them."""
        return DASHES[self.dash]

    @property
    def outline(self) -> str:
        """The marker as an SVG path around 0, 0."""
        return OUTLINES[self.symbol.removesuffix("-open")]


DASHES = {
    "solid": "none",
    "dash": "7 4",
    "dot": "2 3",
    "dashdot": "6 3 2 3",
    "longdash": "10 4",
    "longdashdot": "9 3 2 3",
}
OUTLINES = {
    "circle": "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
    "square": "M-3-3h6v6h-6z",
    "diamond": "M0-4.5l4 4.5l-4 4.5l-4-4.5z",
    "triangle-up": "M0-4l4 7h-8z",
    "triangle-down": "M0 4l4-7h-8z",
    "hexagon": "M-4 0l2-3.5h4l2 3.5l-2 3.5h-4z",
    "star": "M0-5l1.3 3.3l3.5.2l-2.7 2.2l.9 3.4l-3-1.9l-3 1.9l.9-3.4l-2.7-2.2l3.5-.2z",
    "cross": "M-1.3-4h2.6v2.7h2.7v2.6h-2.7v2.7h-2.6v-2.7h-2.7v-2.6h2.7z",
    "x": "M-3.5-2l1.5-1.5l2 2l2-2l1.5 1.5l-2 2l2 2l-1.5 1.5l-2-2l-2 2l-1.5-1.5l2-2z",
}

DARK = {
    "none": "#e6e6e6",
    "crop": "#9a9a9a",
    "linear": "#e8702a",
    "ntk": "#f0c53a",
    "ntk-critical": "#f0a6d2",
    "yarn": "#3f97e0",
    "yarn-paper": "#a9d8f7",
    "llama3": "#2bb389",
    "mrrope": "#c3aeff",
    "dynamic": "#d8bda0",
    "dynamic-linear": "#d13a6c",
    "self-extend": "#6fd6df",
    "dual-chunk": "#d9cf6b",
}
LINES = {  # dashes and markers tell the lines apart without colour
    "none": ("dash", "x-open"),
    "crop": ("dash", "cross"),
    "linear": ("solid", "square"),
    "ntk": ("dot", "diamond"),
    "ntk-critical": ("dashdot", "diamond-open"),
    "yarn": ("solid", "circle"),
    "yarn-paper": ("longdash", "circle-open"),
    "llama3": ("longdashdot", "triangle-up"),
    "mrrope": ("solid", "star"),
    "dynamic": ("dot", "triangle-down"),
    "dynamic-linear": ("dashdot", "square-open"),
    "self-extend": ("dashdot", "hexagon-open"),
    "dual-chunk": ("dot", "hexagon"),
}
SPARE = (  # for names not known here, in turn
    Look("#555555", "#bdbdbd", "longdash", "star-open"),
    Look("#a03030", "#ff9d8a", "longdashdot", "cross-open"),
    Look("#3a5a00", "#b3d98c", "dash", "circle"),
    Look("#6b3a6b", "#d9a3d9", "dash", "triangle-up"),
)


def looks(methods: Iterable[str]) -> dict[str, Look]:
    """The look of each method, by name."""
    spare = itertools.cycle(SPARE)
    return {
        name: Look(COLOURS[name], DARK[name], *LINES[name]) if name in LINES else next(spare)
        for name in dict.fromkeys(methods)
    }


def faint(colour: str, share: float) -> str:
    """`#rrggbb` let through: `rgba(...)` with `share` of it left."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{share:g})"
