"""The sinusoids as waves over positions, and the matrix that moves every position by the same step."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ropewalk.explorer.charts import ACCENT, OTHER, PALE, heatmap, layout, line, plain, turned
from ropewalk.explorer.panel import Drawn, Panel, Slider, State
from ropewalk.explorer.words import Words
from ropewalk.functional import sinusoidal, sinusoidal_frequencies, sinusoidal_shift
from ropewalk.positions import arange


class Waves(NamedTuple):
    """The table [length, dim], the shift M [dim, dim], and how M carries PE(p) to PE(p + offset)."""

    table: Tensor
    frequencies: Tensor
    shift: Tensor
    moved: Tensor  # M PE(p), [dim]
    there: Tensor  # PE(p + offset), [dim]
    residual: float  # of this position
    largest: float  # of every position drawn


def numbers(state: State) -> Waves:
    """The encoding of a state and its shift, from the library: a float32 table and a float64 matrix."""
    length, dim, offset, position = state["length"], state["dim"], state["offset"], state["position"]
    where = arange(length)
    table, beyond = sinusoidal(where, dim), sinusoidal(where + offset, dim)
    shift = sinusoidal_shift(offset, dim)
    here = torch.tensor([position])
    at, there = sinusoidal(here, dim)[0], sinusoidal(here + offset, dim)[0]
    moved = shift @ at.double()
    strays = (table.double() @ shift.mT - beyond).abs()
    return Waves(
        table,
        sinusoidal_frequencies(dim),
        shift,
        moved,
        there,
        float((moved - there).abs().max()),
        float(strays.max()),
    )


def draw(state: State, words: Words) -> Drawn:
    """The waves with one pair before the others, the matrix, and what it makes of one position."""
    found = numbers(state)
    pair = min(state["pair"], state["dim"] // 2 - 1)
    k = state["offset"]
    return Drawn(
        {"waves": _waves(found, pair, words), "matrix": _matrix(found, words), "moved": _moved(state, found, words)},
        {
            "frequency": f"{float(found.frequencies[pair]):.6g}",
            "wavelength": f"{2 * math.pi / float(found.frequencies[pair]):,.4g}",
            "rotation": f"cos({k}ω) = {float(found.shift[2 * pair, 2 * pair]):.4f}, "
            f"sin({k}ω) = {float(found.shift[2 * pair, 2 * pair + 1]):.4f}",
            "residual": f"{found.residual:.1e}",
            "largest": f"{found.largest:.1e}",
        },
        {"pair": state["dim"] // 2 - 1},
    )


def _waves(found: Waves, pair: int, words: Words) -> dict[str, Any]:
    where = list(range(len(found.table)))
    data = []
    for other in range(len(found.frequencies)):
        if other != pair:
            faint = line("", where, plain(found.table[:, 2 * other]), PALE, width=1)
            data.append(faint | {"hoverinfo": "skip", "showlegend": False})
    for column, name, colour, dash in ((2 * pair, "sin", ACCENT, "solid"), (2 * pair + 1, "cos", OTHER, "dash")):
        named = line(
            words("waves.line", function=name, pair=pair), where, plain(found.table[:, column]), colour, dash, 3
        )
        data.append(named | {"hovertemplate": "p = %{x}: %{y:.4f}"})
    made = layout(words("axis.position"), words("axis.value"), legend=True)
    made["yaxis"]["range"] = [-1.05, 1.05]
    return {"data": data, "layout": made}


def _matrix(found: Waves, words: Words) -> dict[str, Any]:
    trace = heatmap(
        plain(found.shift), low=-1, high=1, hovertemplate="M[%{y}, %{x}] = %{z:.4f}<extra></extra>", xgap=1, ygap=1
    )
    made = turned(layout(words("axis.dimension"), words("axis.dimension")))
    return {"data": [trace], "layout": made}


def _moved(state: State, found: Waves, words: Words) -> dict[str, Any]:
    position, offset = state["position"], state["offset"]
    where = list(range(len(found.there)))
    bars = {"type": "bar", "x": where, "y": plain(found.there), "name": f"PE({position + offset})",
            "marker": {"color": PALE}, "hovertemplate": "%{y:.4f}"}  # fmt: skip
    dots = line(f"M · PE({position})", where, plain(found.moved), ACCENT)
    dots |= {"mode": "markers", "marker": {"color": ACCENT, "size": 8}, "hovertemplate": "%{y:.4f}"}
    made = layout(words("axis.dimension"), words("axis.value"), legend=True)
    made["yaxis"]["range"] = [-1.1, 1.1]
    return {"data": [bars, dots], "layout": made}


PANEL = Panel(
    "waves",
    (
        Slider("pair", 4, 0, 63, shared=(0, 1, 2, 4, 8, 15)),
        Slider("offset", 5, -32, 64, shared=(1, 5, 20)),
        Slider("position", 4, 0, 64),
        Slider("length", 100, 8, 256),
        Slider("dim", 32, 4, 128, 2),
    ),
    ("waves", "matrix", "moved"),
    draw,
)
