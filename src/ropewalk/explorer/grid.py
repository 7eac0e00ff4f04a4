"""The grid of sinusoids: a row a position, a column a dimension, and the formula of every cell with its numbers."""

import math
from typing import Any, NamedTuple

from torch import Tensor

from ropewalk.explorer.charts import ACCENT, INK, OTHER, dot, heatmap, layout, plain, turned
from ropewalk.explorer.panel import Choice, Drawn, Panel, Slider, State
from ropewalk.explorer.words import Words
from ropewalk.functional import sinusoidal, sinusoidal_frequencies
from ropewalk.functional.sinusoidal import GRIDS, ORDERS
from ropewalk.positions import arange

BASES = ("100", "1000", "10000", "100000", "1000000")


class Grid(NamedTuple):
    """The table [positions, dim], its frequencies [pairs], and the table of the other frequency grid."""

    table: Tensor
    frequencies: Tensor
    other: Tensor


def numbers(state: State) -> Grid:
    """The encoding of a state, from the library."""
    where, dim, base, order = arange(state["length"]), state["dim"], float(state["base"]), state["order"]
    other = next(grid for grid in GRIDS if grid != state["grid"])
    return Grid(
        sinusoidal(where, dim, base=base, order=order, grid=state["grid"]),
        sinusoidal_frequencies(dim, base=base, grid=state["grid"]),
        sinusoidal(where, dim, base=base, order=order, grid=other),
    )


def wave(column: int, dim: int, order: str) -> tuple[str, int]:
    """Which function stands in a column, and of which pair."""
    if order == "interleaved":
        return ("sin", "cos")[column % 2], column // 2
    half, pair = divmod(column, dim // 2)
    return order.split("_")[half], pair


def formula(state: State, grid: Grid, position: int, column: int, *, brief: bool = False) -> str:
    """`PE(3, 4) = sin(3 · 10000^(-4/32)) = sin(3 · 0.316228) = 0.8126`."""
    function, pair = wave(column, state["dim"], state["order"])
    frequency, value = float(grid.frequencies[pair]), float(grid.table[position, column])
    paper = state["grid"] == "vaswani"
    power = f"{2 * pair}/{state['dim']}" if paper else f"{pair}/{max(len(grid.frequencies) - 1, 1)}"
    cell = f"PE({position}, {column}) = "
    written = "" if brief else f"{function}({position} · {state['base']}^(-{power})) = "
    return f"{cell}{written}{function}({position} · {frequency:.6g}) = {value:.4f}"


def draw(state: State, words: Words) -> Drawn:
    """The heat map with one cell marked, and the vector of that cell's position."""
    grid = numbers(state)
    position, column = min(state["position"], state["length"] - 1), min(state["column"], state["dim"] - 1)
    waves = 2 * math.pi / grid.frequencies
    return Drawn(
        {"map": _map(state, grid, position, column, words), "vector": _vector(state, grid, position, column, words)},
        {
            "cell": formula(state, grid, position, column),
            "shortest": f"{float(waves[0]):,.4g}",
            "longest": f"{float(waves[-1]):,.6g}",
            "apart": f"{float((grid.table - grid.other).abs().max()):.4f}",
        },
        {"position": state["length"] - 1, "column": state["dim"] - 1},
    )


def _map(state: State, grid: Grid, position: int, column: int, words: Words) -> dict[str, Any]:
    apart = state["shown"] == "difference"
    values = grid.table - grid.other if apart else grid.table
    rows, columns = values.shape
    said = [[formula(state, grid, row, at, brief=True) for at in range(columns)] for row in range(rows)]
    trace = heatmap(plain(values), low=-1, high=1, text=said, hovertemplate="%{text}<extra></extra>")
    made = turned(layout(words("axis.dimension"), words("axis.position")))
    return {"data": [trace, dot(column, position, INK, "square-open", 15)], "layout": made}


def _vector(state: State, grid: Grid, position: int, column: int, words: Words) -> dict[str, Any]:
    row = plain(grid.table[position])
    said = [formula(state, grid, position, at, brief=True) for at in range(len(row))]
    colours = [OTHER if at == column else ACCENT for at in range(len(row))]
    bars = {"type": "bar", "x": list(range(len(row))), "y": row, "text": said, "textposition": "none",
            "hovertemplate": "%{text}<extra></extra>", "marker": {"color": colours}}  # fmt: skip
    made = layout(words("axis.dimension"), words("axis.value"))
    made["yaxis"]["range"] = [-1.05, 1.05]
    return {"data": [bars], "layout": made}


PANEL = Panel(
    "grid",
    (
        Slider("position", 3, 0, 127, shared=(0, 3, 10)),
        Slider("column", 4, 0, 127),
        Slider("length", 20, 2, 128),
        Slider("dim", 32, 4, 128, 2),
        Choice("base", "10000", BASES, shared=("100", "10000")),
        Choice("order", "interleaved", ORDERS, shared=ORDERS),
        Choice("grid", "vaswani", GRIDS, shared=GRIDS),
        Choice("shown", "values", ("values", "difference")),
    ),
    ("map", "vector"),
    draw,
)
