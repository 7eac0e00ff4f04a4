"""ALiBi: a penalty that grows with the distance, with a slope of its own for every head."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ropewalk.explorer.charts import ACCENT, PALE, RISING, heatmap, layout, line, plain, turned
from ropewalk.explorer.panel import Choice, Drawn, Panel, Slider, State
from ropewalk.explorer.words import Words
from ropewalk.modules.alibi import ALiBi
from ropewalk.positions import arange

SEES = ("causal", "both")


class Alibi(NamedTuple):
    """ALiBi's bias [H, T, T], its slopes [H], and the weights that it alone would give."""

    bias: Tensor
    slopes: Tensor
    weights: Tensor


def numbers(heads: int, length: int, *, causal: bool) -> Alibi:
    """The bias of every head, -inf where a causal query does not look."""
    encoding, where = ALiBi(heads), arange(length)
    bias = encoding.bias(where, where)
    if causal:
        bias = bias.masked_fill(where[None, :] > where[:, None], -torch.inf)
    return Alibi(bias, encoding.slopes, bias.softmax(-1))


def draw(state: State, words: Words) -> Drawn:
    """One head's matrix, and the bias of every head by distance."""
    heads, length = int(state["heads"]), state["length"]
    found = numbers(heads, length, causal=state["sees"] == "causal")
    head = min(state["head"], heads) - 1
    raw = state["shown"] == "bias"
    trace = heatmap(
        plain((found.bias if raw else found.weights)[head]),
        low=-float(length - 1) * float(found.slopes[head]) if raw else 0.0,
        high=0.0 if raw else float(found.weights[head].max()),
        scale=[[0, RISING[1][1]], [1, RISING[0][1]]] if raw else RISING,
        hovertemplate=words("alibi.cell") + "<extra></extra>",
    )
    data = [_line(found, h, words, chosen=h == head) for h in sorted(range(heads), key=lambda h: h == head)]
    last = found.weights[head, -1]
    return Drawn(
        {
            "matrix": {"data": [trace], "layout": turned(layout(words("axis.key"), words("axis.query")))},
            "distance": {"data": data, "layout": layout(words("axis.distance"), words("axis.bias"), legend=True)},
        },
        {
            "slope": f"{float(found.slopes[head]):.6g}",
            "farthest": f"{float(found.bias[head, -1, 0]):.4g}",
            "near": f"{float(last[-1]):.1%}",
            "half": f"{int((last.flip(0).cumsum(0) < 0.5).sum()) + 1}",
        },
        {"head": heads},
    )


def _line(found: Alibi, head: int, words: Words, *, chosen: bool) -> dict[str, Any]:
    past = plain(found.bias[head, -1].flip(0))
    name, colour = words("alibi.head_line", head=head + 1), ACCENT if chosen else PALE
    drawn = line(name, range(len(past)), past, colour, width=3 if chosen else 1.2)
    return drawn | {"showlegend": chosen, "hovertemplate": f"{name}: %{{y:.4g}}<extra></extra>"}


PANEL = Panel(
    "alibi",
    (
        Slider("head", 3, 1, 16, shared=(1, 2, 3, 5, 8)),
        Choice("heads", "8", ("4", "8", "12", "16")),
        Slider("length", 32, 4, 64),
        Choice("sees", "causal", SEES, shared=SEES),
        Choice("shown", "bias", ("bias", "weights"), shared=("bias", "weights")),
    ),
    ("matrix", "distance"),
    draw,
)
