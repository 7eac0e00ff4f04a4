"""One pair of q and of k, turned: each by its own position, and their score by the difference alone."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ropewalk.explorer.charts import ACCENT, INK, OTHER, PALE, dot, heatmap, layout, line, plain, turned
from ropewalk.explorer.panel import Drawn, Panel, Slider, State
from ropewalk.explorer.words import Words
from ropewalk.functional import apply_rotary, cos_sin, inv_freq
from ropewalk.positions import arange

HEAD_DIM, BASE, SIDE = 64, 10_000.0, 33
Q, K = (1.0, 0.3), (0.5, 0.8)
FARTHEST = SIDE - 1


class Turned(NamedTuple):
    """q at m and k at n, [2] each, before and after both have moved on, what multiplies them, and all scores."""

    theta: float
    q: Tensor
    k: Tensor
    moved_q: Tensor
    moved_k: Tensor
    matrix: Tensor  # R at m, [2, 2]
    score: float
    moved_score: float
    from_difference: float  # q . R(n - m) k
    scores: Tensor  # [m, n]


def numbers(state: State) -> Turned:
    """The rotation of a state, from the library, in float64 products."""
    theta = inv_freq(HEAD_DIM, BASE)[state["pair"] : state["pair"] + 1]
    m, n, step = state["m"], state["n"], state["step"]
    q, k = torch.tensor(Q, dtype=torch.float64), torch.tensor(K, dtype=torch.float64)
    here, there = turn(q, m, theta), turn(k, n, theta)
    moved_here, moved_there = turn(q, m + step, theta), turn(k, n + step, theta)
    columns = [turn(unit, m, theta) for unit in torch.eye(2, dtype=torch.float64)]
    every = arange(SIDE)
    return Turned(
        float(theta),
        here,
        there,
        moved_here,
        moved_there,
        torch.stack(columns, dim=1),
        float(here @ there),
        float(moved_here @ moved_there),
        float(q @ turn(k, n - m, theta)),
        _turn(q, every, theta) @ _turn(k, every, theta).mT,
    )


def turn(pair: Tensor, position: int, theta: Tensor) -> Tensor:
    """R(position theta) of a pair [2]."""
    return _turn(pair, torch.tensor([position]), theta)[0]


def _turn(pair: Tensor, positions: Tensor, theta: Tensor) -> Tensor:
    """One pair at many positions, [T, 2]."""
    cos, sin = cos_sin(positions, theta)
    return apply_rotary(pair.expand(1, 1, len(positions), 2), cos, sin)[0, 0]


def draw(state: State, words: Words) -> Drawn:
    """The two arrows, and the table of scores with the path that both walk along."""
    found = numbers(state)
    m, n, step = state["m"], state["n"], state["step"]
    (a, b), (c, d) = found.matrix.tolist()
    return Drawn(
        {"plane": _plane(state, found, words), "scores": _scores(state, found, words)},
        {
            "theta": f"{found.theta:.6g}",
            "matrix": f"R({m}θ) = [[{a:.4f}, {b:.4f}], [{c:.4f}, {d:.4f}]]",
            "score": f"q_{m} · k_{n} = {found.score:.4f}",
            "moved": f"q_{m + step} · k_{n + step} = {found.moved_score:.4f}",
            "difference": f"q · R({n - m}θ) k = {found.from_difference:.4f}",
            "lengths": f"|q| = {float(found.moved_q.norm()):.4f}, |k| = {float(found.moved_k.norm()):.4f}",
        },
    )


def _plane(state: State, found: Turned, words: Words) -> dict[str, Any]:
    m, n, step = state["m"] + state["step"], state["n"] + state["step"], state["step"]
    round_ = [2 * math.pi * part / 90 for part in range(91)]
    data = [line("", [math.cos(a) for a in round_], [math.sin(a) for a in round_], PALE, width=1)]
    data[0] |= {"hoverinfo": "skip", "showlegend": False}
    arrows: list[tuple[str, Any, str, str]] = [
        (words("rotation.unturned", name="q"), Q, ACCENT, "dot"),
        (words("rotation.unturned", name="k"), K, OTHER, "dot"),
    ]
    arrows += [
        (f"q, m = {m}", found.moved_q.tolist(), ACCENT, "solid"),
        (f"k, n = {n}", found.moved_k.tolist(), OTHER, "solid"),
    ]
    if step:
        arrows += [
            (f"q, m = {state['m']}", found.q.tolist(), ACCENT, "dash"),
            (f"k, n = {state['n']}", found.k.tolist(), OTHER, "dash"),
        ]
    data += [_arrow(*arrow) for arrow in arrows]
    made = layout("", "", legend=True)
    for axis in ("xaxis", "yaxis"):
        made[axis] |= {"range": [-1.15, 1.15], "zeroline": True, "zerolinecolor": PALE}
    made["yaxis"] |= {"scaleanchor": "x"}
    return {"data": data, "layout": made}


def _arrow(name: str, end: Any, colour: str, dash: str) -> dict[str, Any]:
    x, y = (round(part, 6) for part in end)
    trace = line(name, [0, x], [0, y], colour, dash, 2.5 if dash == "solid" else 1.5)
    marker = {"symbol": ["circle", "arrow"], "angleref": "previous", "size": [0, 13], "color": colour}
    return trace | {"mode": "lines+markers", "marker": marker, "hovertemplate": "(%{x:.4f}, %{y:.4f})"}


def _scores(state: State, found: Turned, words: Words) -> dict[str, Any]:
    most = math.hypot(*Q) * math.hypot(*K)
    trace = heatmap(plain(found.scores), low=-most, high=most,
                    hovertemplate="m = %{y}, n = %{x}: %{z:.4f}<extra></extra>")  # fmt: skip
    m, n, step = state["m"], state["n"], state["step"]
    path = line("", [n, n + step], [m, m + step], INK, "dot") | {"hoverinfo": "skip"}
    made = turned(layout("n", "m"))
    made["xaxis"]["range"] = [-0.5, SIDE - 0.5]
    made["yaxis"] |= {"range": [SIDE - 0.5, -0.5], "autorange": False}
    marks = [dot(n, m, INK, "circle-open"), dot(n + step, m + step, INK)]
    return {"data": [trace, path, *marks], "layout": made}


PANEL = Panel(
    "rotation",
    (
        Slider("m", 9, 0, FARTHEST // 2, shared=(0, 3, 6, 9, 12)),
        Slider("n", 3, 0, FARTHEST // 2, shared=(0, 3, 9)),
        Slider("step", 0, 0, FARTHEST // 2, shared=(0, 5, 10, 16)),
        Slider("pair", 6, 0, HEAD_DIM // 2 - 1),
    ),
    ("plane", "scores"),
    draw,
)
