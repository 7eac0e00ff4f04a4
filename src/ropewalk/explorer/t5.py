"""T5's buckets: which distances share a learned bias."""

import torch
from torch import Tensor

from ropewalk.explorer.charts import ACCENT, RISING, heatmap, layout, line, plain, turned
from ropewalk.explorer.panel import Choice, Drawn, Panel, Slider, State
from ropewalk.explorer.words import Words
from ropewalk.functional import t5_bucket
from ropewalk.positions import arange

SEES = ("causal", "both")
FAR = 256  # distances of the stairs


def numbers(length: int, count: int, farthest: int, *, causal: bool) -> Tensor:
    """T5's bucket of every query and key, [T, T]."""
    where = arange(length)
    return t5_bucket(where[None, :] - where[:, None], buckets=count, max_distance=farthest, bidirectional=not causal)


def draw(state: State, words: Words) -> Drawn:
    """The matrix of buckets, and the stairs that they are by distance."""
    causal, count, farthest = state["sees"] == "causal", int(state["buckets"]), int(state["max_distance"])
    matrix = numbers(state["length"], count, farthest, causal=causal)
    trace = heatmap(
        plain(matrix), low=0, high=count - 1, scale=RISING, hovertemplate=words("t5.bucket") + "<extra></extra>"
    )
    relative = torch.arange(-FAR, 1 if causal else FAR + 1)
    found = t5_bucket(relative, buckets=count, max_distance=farthest, bidirectional=not causal)
    stairs = line("", relative.tolist(), found.tolist(), ACCENT) | {"hovertemplate": "%{x}: %{y}<extra></extra>"}
    stairs["line"]["shape"] = "hv"
    past = t5_bucket(-torch.arange(FAR + 1), buckets=count, max_distance=farthest, bidirectional=not causal)
    return Drawn(
        {
            "matrix": {"data": [trace], "layout": turned(layout(words("axis.key"), words("axis.query")))},
            "distance": {"data": [stairs], "layout": layout(words("axis.relative"), words("axis.bucket"))},
        },
        {
            "own": f"0 – {int((past.bincount()[past] == 1).cumprod(0).sum()) - 1}",
            "shared_from": f"{int((past == past[-1]).nonzero()[0, 0])}",
        },
    )


PANEL = Panel(
    "t5",
    (
        Choice("buckets", "32", ("16", "32", "64"), shared=("16", "32", "64")),
        Choice("max_distance", "128", ("64", "128", "256"), shared=("64", "128", "256")),
        Slider("length", 64, 4, 128),
        Choice("sees", "causal", SEES, shared=SEES),
    ),
    ("matrix", "distance"),
    draw,
)
