"""Shuffle the words: which layers notice, and which only hand the shuffle on."""

import html
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ropewalk.attention import attend
from ropewalk.compare.claims import mixers, strays
from ropewalk.explorer.charts import ACCENT, MARK, OTHER, heatmap, layout, plain, turned
from ropewalk.explorer.panel import Choice, Drawn, Panel, Slider, State, Text
from ropewalk.explorer.words import Words
from ropewalk.modules import Rotary, Sinusoidal

WIDTH, MOST = 16, 24  # features of a word, words read
LAYERS = ("attention", "causal", "sinusoidal", "rotary", "rnn", "convolution")
FOLLOWS = 1e-9  # relative: float64's rounding is far below, every layer that notices far above
LOCK = Lock()  # the page answers in threads
LEAST = 1e-16  # what a bar of a logarithmic axis shows for nothing at all


class Shuffled(NamedTuple):
    """What every layer makes of shuffled words, beside its shuffled output for the words as they stood."""

    order: list[int]
    shuffled: dict[str, Tensor]  # f(P x), [T, WIDTH]
    followed: dict[str, Tensor]  # P f(x)
    strays: dict[str, float]  # the largest difference, relative to the largest output


def numbers(sentence: list[str], seed: int) -> Shuffled:
    """Every layer on the words and on a shuffle of them; equal words have equal vectors."""
    x = torch.stack([_vector(word) for word in sentence])[None]
    order = torch.randperm(len(sentence), generator=torch.Generator().manual_seed(seed))
    with LOCK:
        layers = _layers()
    with torch.no_grad():
        shuffled = {name: layers[name](x[:, order])[0] for name in LAYERS}
        followed = {name: layers[name](x)[0, order] for name in LAYERS}
    return Shuffled(
        order.tolist(), shuffled, followed, {name: strays(shuffled[name], followed[name]) for name in LAYERS}
    )


def _vector(word: str) -> Tensor:
    random = torch.Generator().manual_seed(zlib.crc32(word.encode()))
    return torch.randn(WIDTH, generator=random, dtype=torch.float64)


@cache
def _layers() -> Mapping[str, Callable[[Tensor], Tensor]]:
    """The layers, of the same random weights in every process; torch draws them from a state that threads share."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        mixing = mixers(WIDTH)
    table = Sinusoidal(WIDTH)
    return {
        **mixing,
        "causal": lambda x: _attention(x, causal=True),
        "sinusoidal": lambda x: _attention(table(x)),
        "rotary": lambda x: _attention(x, encoding=Rotary(WIDTH)),
    }


def _attention(x: Tensor, *, causal: bool = False, encoding: Rotary | None = None) -> Tensor:
    head = x[:, None]
    seen: Any = attend(head, head, head, causal=causal, encoding=encoding)
    return seen[:, 0]


def draw(state: State, words: Words) -> Drawn:
    """How far each layer strays from following, and the outputs of one."""
    sentence = (state["sentence"].split() or words("shuffle.example").split())[:MOST]
    found = numbers(sentence, state["seed"])
    moved = [sentence[at] for at in found.order]
    layer = state["layer"]
    return Drawn(
        {
            "strays": _strays(found, words),
            "followed": _outputs(found.followed[layer], moved, words),
            "shuffled": _outputs(found.shuffled[layer], moved, words),
        },
        {"before": " ".join(sentence), "after": " ".join(moved)}
        | {name: f"{found.strays[name]:.1e}" for name in LAYERS},
    )


def _strays(found: Shuffled, words: Words) -> dict[str, Any]:
    values = [found.strays[name] for name in LAYERS]
    bars = {
        "type": "bar", "orientation": "h", "y": [words(f"shuffle.layer.{name}") for name in LAYERS],
        "x": [max(value, LEAST) for value in values], "text": [f"{value:.1e}" for value in values],
        "marker": {"color": [ACCENT if value < FOLLOWS else OTHER for value in values]},
        "hovertemplate": "%{text}<extra></extra>", "textposition": "auto",
    }  # fmt: skip
    made = layout(words("axis.strays"), "")
    made["xaxis"] |= {"type": "log", "range": [-17, 1], "dtick": 4, "exponentformat": "power"}
    made["yaxis"] |= {"autorange": "reversed"}
    line = {
        "type": "line",
        "x0": FOLLOWS,
        "x1": FOLLOWS,
        "y0": 0,
        "y1": 1,
        "yref": "paper",
        "line": {"color": MARK, "dash": "dot"},
    }
    return {"data": [bars], "layout": made | {"shapes": [line]}}


def _outputs(values: Tensor, moved: list[str], words: Words) -> dict[str, Any]:
    size = float(values.abs().max())
    rows = list(range(len(moved)))
    trace = heatmap(plain(values), low=-size, high=size, y=rows, hovertemplate="%{z:.4f}<extra></extra>")
    made = turned(layout(words("axis.feature"), ""))
    made["yaxis"] |= {"tickvals": rows, "ticktext": [html.escape(word) for word in moved]}
    return {"data": [trace], "layout": made}


PANEL = Panel(
    "shuffle",
    (
        Slider("seed", 1, 0, 20, shared=(1, 2, 3)),
        Choice("layer", "attention", LAYERS, shared=LAYERS),
        Text("sentence"),
    ),
    ("strays", "followed", "shuffled"),
    draw,
)
