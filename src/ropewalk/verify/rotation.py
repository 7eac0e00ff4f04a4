"""Checks of the rotary encoding."""

import decimal
import math
from decimal import Decimal
from itertools import product

import torch
from torch import Tensor

from ropewalk.functional.rotary import LAYOUTS
from ropewalk.modules import Rotary
from ropewalk.testing import rotate_complex, rotation_matrix
from ropewalk.verify.check import Check
from ropewalk.verify.samples import apart, plain_inv_freq, sample, worst

HEAD = 64
PLACES = torch.tensor([0, 1, 2, 100, 4095, 100_000])
PI = Decimal("3.14159265358979323846264338327950288419716939937510")


def unit(seed: int = 0) -> Tensor:
    """Vectors of length 1 for each of PLACES, float64 [1, 1, T, D]: errors then are shares of a vector's length."""
    x = sample(1, 1, len(PLACES), HEAD, seed=seed, dtype=torch.float64)
    return x / x.norm(dim=-1, keepdim=True)


def turned(x: Tensor, where: Tensor, **options: object) -> Tensor:
    """`x` as `Rotary` turns it."""
    return Rotary(HEAD, **options)(x, x, where)[0]  # type: ignore[arg-type]


def distance() -> float:
    """Scores of all pairs against those of the same tokens moved."""
    errors, where = [], torch.arange(len(PLACES))
    for layout, offset in product(LAYOUTS, (1, 1000, 100_000)):
        at_start, moved = (
            turned(unit(0), places, layout=layout) @ turned(unit(1), places, layout=layout).mT
            for places in (where, where + offset)
        )
        errors.append(apart(moved, at_start))
    return worst(errors)


def addition() -> float:
    """Turned by a, then by b, against turned by a + b."""
    a, b = PLACES, PLACES.flip(0) + 17
    return worst(
        apart(turned(turned(unit(), a, layout=layout), b, layout=layout), turned(unit(), a + b, layout=layout))
        for layout in LAYOUTS
    )


def length() -> float:
    """The length of turned unit vectors against 1."""
    return worst((turned(unit(), PLACES, layout=layout).norm(dim=-1) - 1).abs().max().item() for layout in LAYOUTS)


def complex_product() -> float:
    """Against complex multiplication, for whole and partial widths."""
    errors = []
    for layout, width in product(LAYOUTS, (HEAD, 16)):
        angles = PLACES.double()[:, None] * plain_inv_freq(width, 10_000.0)
        got = turned(unit(), PLACES, layout=layout, rotary_dim=width)
        errors.append(apart(got, rotate_complex(unit(), angles, layout=layout)))
    return worst(errors)


def matrix() -> float:
    """Against the matrix of 2 x 2 blocks, multiplied out."""
    errors = []
    for layout, width in product(LAYOUTS, (HEAD, 16)):
        angles = PLACES.double()[:, None] * plain_inv_freq(width, 10_000.0)
        blocks = torch.stack([rotation_matrix(row, HEAD, layout=layout) for row in angles])
        explicit = (blocks @ unit()[..., None])[..., 0]
        errors.append(apart(turned(unit(), PLACES, layout=layout, rotary_dim=width), explicit))
    return worst(errors)


def layouts() -> float:
    """Half, reordered, against interleaved of reordered features."""
    order = torch.arange(HEAD).reshape(2, -1).T.flatten()  # half -> interleaved
    half = turned(unit(), PLACES, layout="half")
    return apart(half[..., order], turned(unit()[..., order], PLACES, layout="interleaved"))


def far_out() -> float:
    """The tables of position 16,000,000 against angles in 50 decimal digits, less whole turns."""
    place, errors = 16_000_000, []
    for base in (377, 10_000, 500_000):
        with decimal.localcontext(prec=50):
            powers = [Decimal(base) ** (Decimal(-2 * i) / HEAD) for i in range(HEAD // 2)]
            angles = [float(place * power % (2 * PI)) for power in powers]
        cos, sin = Rotary(HEAD, base=base).tables(torch.tensor([place]))
        for table, function in ((cos, math.cos), (sin, math.sin)):
            errors.append(apart(table[0], torch.tensor([function(a) for a in angles], dtype=torch.float64)))
    return worst(errors)


CHECKS = (
    Check(
        "rotary: distance",
        "The score of a turned query and a turned key depends on their distance alone.",
        "identity",
        2e-7,
        distance,
    ),
    Check("rotary: addition", "Turning by a and then by b is turning by a + b.", "identity", 2e-7, addition),
    Check("rotary: length", "Turning keeps the length of every vector.", "identity", 2e-7, length),
    Check("rotary: layouts", "The half layout is the interleaved one, reordered.", "identity", 0.0, layouts),
    Check(
        "rotary: complex",
        "A pair (a, b) turns as the complex number a + bi times exp(i angle).",
        "float64 twin",
        1e-7,
        complex_product,
    ),
    Check("rotary: matrix", "Rotary is one matrix of 2 x 2 rotations.", "float64 twin", 1e-7, matrix),
    Check(
        "rotary: far out",
        "At position 16,000,000 cos and sin are still right to float32 rounding (angles worked out in 50 digits).",
        "float64 twin",
        1e-7,
        far_out,
    ),
)
