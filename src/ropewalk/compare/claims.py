"""Claims of every explanation of position encodings, as measurements."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ropewalk.attention import attend
from ropewalk.functional import inv_freq, sinusoidal

HEAD_DIM, FARTHEST, PAIRS = 64, 4096, 256
DIM, POSITIONS = 64, 65_536


def claims() -> dict[str, Any]:
    """All of them but the frequencies that a trained model uses, which need one."""
    return {"decay": decay(), "uniqueness": uniqueness(), "shuffling": shuffling()}


def decay() -> dict[str, Any]:
    """The rotary score against distance, of vectors that point the same way and of random ones.

    For q = k of equal pairs the score at distance r is the mean of cos(r theta_i); for independent Gaussian q and k it
    is zero on average at every distance, r = 0 included: that RoPE "decays" holds for aligned vectors alone.
    """
    frequencies = inv_freq(HEAD_DIM, 10_000.0)
    every = torch.arange(FARTHEST + 1, dtype=torch.float64)
    aligned = torch.cos(every[:, None] * frequencies).mean(1)
    shown = sorted({0, 1, 2, 3, 4, 6, 8, *(2**power for power in range(4, 13))})
    random = torch.Generator().manual_seed(0)
    q, k = (torch.randn(PAIRS, HEAD_DIM // 2, 2, generator=random, dtype=torch.float64) for _ in range(2))
    return {
        "head_dim": HEAD_DIM,
        "distances": shown,
        "aligned": aligned[shown].tolist(),
        "random_mean": [turned_score(q, k, distance * frequencies) for distance in shown],
        "first_negative": int((aligned < 0).nonzero()[0]),
        "first_rise": int((aligned.diff() > 0).nonzero()[0]) + 1,
    }


def turned_score(q: Tensor, k: Tensor, angles: Tensor) -> float:
    """The mean of q . R k over all q and k, divided by |q| |k|: [] for pairs [N, P, 2]."""
    one, other = torch.view_as_complex(q), torch.view_as_complex(k) * torch.polar(torch.ones_like(angles), angles)
    scores = (one.conj() * other).real.sum(-1)
    return float((scores / (one.norm(dim=-1) * other.norm(dim=-1))).mean())


def uniqueness() -> dict[str, Any]:
    """How near the nearest two of many sinusoidal rows are: they depend on the distance alone, so one row suffices."""
    rows = sinusoidal(torch.arange(POSITIONS), DIM).double()
    apart = (rows[1:] - rows[0]).norm(dim=-1)
    return {"dim": DIM, "positions": POSITIONS, "nearest": float(apart.min()), "shift": int(apart.argmin()) + 1}


def shuffling() -> dict[str, float]:
    """How far the outputs for shuffled tokens are from the shuffled outputs, relative to their size.

    Attention without positions and without a mask follows a shuffle to rounding; an RNN and a convolution do not.
    """
    torch.manual_seed(0)
    x, order = torch.randn(1, 32, 16, dtype=torch.float64), torch.randperm(32)
    with torch.no_grad():
        return {name: strays(layer(x[:, order]), layer(x)[:, order]) for name, layer in mixers(16).items()}


def mixers(width: int) -> dict[str, Callable[[Tensor], Any]]:
    """Layers that mix the tokens of x [B, T, width], float64: of random weights where they have any."""
    rnn, convolution = nn.GRU(width, width, batch_first=True).double(), nn.Conv1d(width, width, 3, padding=1).double()
    return {
        "attention": _attention,
        "rnn": lambda x: rnn(x)[0],
        "convolution": lambda x: convolution(x.mT).mT,
    }


def _attention(x: Tensor) -> Tensor:
    """One head, no mask, no positions."""
    seen: Any = attend(x[:, None], x[:, None], x[:, None], causal=False)
    return seen[:, 0]


def strays(one: Tensor, other: Tensor) -> float:
    """How far one is from the other, relative to its size."""
    return float((one - other).abs().max() / other.abs().max())
