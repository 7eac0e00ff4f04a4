"""Checks of xPos, and of rotations whose positions have several coordinates."""

import math

import torch

from ropewalk import positions
from ropewalk.modules import Axial, MRoPE, Rotary, XPos
from ropewalk.scaling import Linear
from ropewalk.verify.check import Check
from ropewalk.verify.samples import apart, sample, worst

HEAD, SCALE = 16, 50.0
PLACES = [0, 1, 2, 40, 700]


def faded() -> float:
    """Scores of all pairs of PLACES, near and far out, against the sum over pairs of features."""
    errors = []
    for start in (0, 16_000_000):
        where = [start + place for place in PLACES]
        q, k = sample(1, 1, len(where), HEAD), sample(1, 1, len(where), HEAD, seed=1)
        places = torch.tensor(where)
        one, other = XPos(HEAD, scale_base=SCALE)(q, k, places)
        got = (one @ other.mT)[0, 0].tril()  # the past, where attention looks
        want = torch.zeros_like(got, dtype=torch.float64)
        for i, m in enumerate(where):
            for j, n in enumerate(where[: i + 1]):
                want[i, j] = sum(_score(q[0, 0, i].tolist(), k[0, 0, j].tolist(), m - n, p) for p in range(HEAD // 2))
        errors.append(apart(got, want))
    return worst(errors)


def _score(q: list[float], k: list[float], behind: int, pair: int) -> float:
    """Of one pair: the complex product turned by theta (m - n), times zeta^((m - n) / S)."""
    other = pair + HEAD // 2
    real, imaginary = q[pair] * k[pair] + q[other] * k[other], q[other] * k[pair] - q[pair] * k[other]
    angle = behind * 10_000.0 ** (-2 * pair / HEAD)
    zeta = (2 * pair / HEAD + 0.4) / 1.4
    return zeta ** (behind / SCALE) * (real * math.cos(angle) - imaginary * math.sin(angle))


def text() -> float:
    """M-RoPE at three equal coordinates against plain rotary, in both orders of sections."""
    where = torch.tensor([0, 1, 2, 1000, 100_000])
    plain = Rotary(HEAD).tables(where)
    return worst(
        apart(ours, theirs)
        for interleaved in (False, True)
        for ours, theirs in zip(
            MRoPE(HEAD, [4, 2, 2], interleaved=interleaved).tables(where.expand(3, -1)), plain, strict=True
        )
    )


def resolution() -> float:
    """An axis squeezed by two: every second row turns as the rows that were trained."""
    fine, trained = positions.grid(8, 3).reshape(2, 8, 3)[:, ::2].flatten(1), positions.grid(4, 3)
    scaled = Axial(HEAD, scaling=[Linear(factor=2.0), None]).tables(fine)
    return worst(apart(a, b) for a, b in zip(scaled, Axial(HEAD).tables(trained), strict=True))


CHECKS = (
    Check(
        "xpos: formula",
        "Scores of the past are rotary's times zeta^(distance / S), pair by pair.",
        "float64 twin",
        5e-6,
        faded,
    ),
    Check("mrope: text", "Text, whose three coordinates are equal, turns as by plain rotary.", "identity", 6e-8, text),
    Check(
        "axial: resolution",
        "An axis scaled by itself turns as the grid it was trained on.",
        "identity",
        0.0,
        resolution,
    ),
)
