"""The rotary score against distance: of vectors that agree, of random ones, and of a key made to be seen from afar."""

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ropewalk.explorer.charts import ACCENT, OTHER, PALE, THIRD, layout, line, plain
from ropewalk.explorer.panel import Choice, Drawn, Panel, Slider, State
from ropewalk.explorer.words import Words
from ropewalk.modules.rotary import Rotary
from ropewalk.report.look import faint

DRAWS, POINTS = 64, 400


class Scores(NamedTuple):
    """Scores by distance, each divided by |q| |k|."""

    distances: Tensor  # [R], int64
    aligned: Tensor  # [R], k = q
    placed: Tensor  # [R], a key turned back so that it agrees with q at `peak`
    mean: Tensor  # [R], over random pairs of q and k
    deviation: Tensor  # [R], of them


@lru_cache(maxsize=32)
def numbers(head_dim: int, base: float, farthest: int, peak: int) -> Scores:
    """The scores of a query at position 0 and keys at every distance drawn, all turned by `Rotary`."""
    rope = Rotary(head_dim, base=base)
    distances = torch.arange(0, farthest + 1, max(1, farthest // POINTS))
    ones = torch.ones(1, head_dim, dtype=torch.float64)
    back = _turned(rope, ones, torch.tensor([-peak]))[:, 0]
    random = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, DRAWS, head_dim, generator=random, dtype=torch.float64)
    drawn = _scores(rope, q, k, distances)
    return Scores(
        distances,
        _scores(rope, ones, ones, distances)[0],
        _scores(rope, ones, back, distances)[0],
        drawn.mean(0),
        drawn.std(0),
    )


def _scores(rope: Rotary, q: Tensor, k: Tensor, distances: Tensor) -> Tensor:
    """q [N, D] at 0 with k [N, D] at each distance: cosines, [N, R]."""
    turned = _turned(rope, k, distances)
    return (turned @ q[:, :, None])[..., 0] / (q.norm(dim=-1) * k.norm(dim=-1))[:, None]


def _turned(rope: Rotary, k: Tensor, positions: Tensor) -> Tensor:
    """[N, R, D]: every vector at every position."""
    every = k[:, None, None].expand(-1, 1, len(positions), -1)
    return rope(every, every, positions)[1][:, 0]


def draw(state: State, words: Words) -> Drawn:
    """Three lines and a band."""
    farthest = int(state["farthest"])
    peak = min(state["peak"], farthest)
    found = numbers(int(state["head_dim"]), float(state["base"]), farthest, peak)
    below, rises = (found.aligned < 0).nonzero(), (found.aligned.diff() > 0).nonzero()
    none = words("score.never")
    return Drawn(
        {"scores": _picture(found, peak, words)},
        {
            "first_rise": f"{int(found.distances[rises[0, 0] + 1]):,}" if len(rises) else none,
            "first_negative": f"{int(found.distances[below[0, 0]]):,}" if len(below) else none,
            "last": f"{float(found.aligned[-1]):.4f}",
            "random": f"{float(found.mean.mean()):+.4f} ± {float(found.deviation.mean()):.4f}",
            "placed": f"{int(found.distances[found.placed.argmax()]):,}",
        },
        {"peak": farthest},
    )


def _picture(found: Scores, peak: int, words: Words) -> dict[str, Any]:
    where = found.distances.tolist()
    low, high = plain(found.mean - found.deviation), plain(found.mean + found.deviation)
    band = {
        "type": "scatter", "mode": "lines", "x": where + where[::-1], "y": high + low[::-1], "fill": "toself",
        "line": {"width": 0}, "fillcolor": faint("#8a929c", 0.35), "hoverinfo": "skip", "name": words("score.band"),
    }  # fmt: skip
    data = [
        band,
        line(words("score.mean"), where, plain(found.mean), "#595959", "dot", 1.5),
        line(words("score.placed", peak=peak), where, plain(found.placed), THIRD, "dash"),
        line(words("score.aligned"), where, plain(found.aligned), ACCENT),
    ]
    for trace in data[1:]:
        trace["hovertemplate"] = "%{x}: %{y:.4f}"
    made = layout(words("axis.distance"), words("axis.score"), legend=True)
    made["yaxis"]["range"] = [-0.6, 1.05]
    mark = {
        "type": "line",
        "x0": peak,
        "x1": peak,
        "y0": 0,
        "y1": 1,
        "yref": "paper",
        "line": {"color": OTHER, "dash": "dot", "width": 1},
    }
    zero = {"type": "line", "x0": 0, "x1": 1, "xref": "paper", "y0": 0, "y1": 0, "line": {"color": PALE, "width": 1}}
    return {"data": data, "layout": made | {"shapes": [zero, mark]}}


PANEL = Panel(
    "score",
    (
        Slider("peak", 100, 0, 4096, shared=(0, 50, 100, 200, 400)),
        Choice("base", "10000", ("100", "10000", "500000", "1000000"), shared=("100", "10000", "500000")),
        Choice("head_dim", "64", ("32", "64", "128")),
        Choice("farthest", "512", ("64", "512", "1024", "4096")),
    ),
    ("scores",),
    draw,
)
