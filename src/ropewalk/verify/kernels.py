"""Checks of the compiled kernels against torch's own operators; none where they do not serve."""

from itertools import product

import torch
from torch import Tensor

from ropewalk.functional.rotary import LAYOUTS, cos_sin, inv_freq
from ropewalk.kernels import cpu, rotate, tables
from ropewalk.kernels.rotate import DTYPES
from ropewalk.verify.check import Check
from ropewalk.verify.samples import apart, sample, worst

PLACES = torch.tensor([0, 1, 4095, 100_000, 16_000_000])


def rotations() -> float:
    """Every dtype and layout, forward; q and k of different heads."""
    cos, sin = cos_sin(PLACES, inv_freq(48, 1e4))
    errors = []
    for dtype, layout in product(DTYPES, LAYOUTS):
        q, k = (sample(2, heads, len(PLACES), 64, seed=heads, dtype=torch.float64).to(dtype) for heads in (4, 2))
        mine, theirs = (rotate(q, k, (cos, sin), layout=layout, impl=impl) for impl in ("cpu", "torch"))
        errors += [apart(a.double(), b.double()) for a, b in zip(mine, theirs, strict=True)]
    return worst(errors)


def gradients() -> float:
    """Of q and k together, from random gradients of both."""
    table, found = cos_sin(PLACES, inv_freq(64, 1e4)), []
    q, k, *upstream = (sample(1, 2, len(PLACES), 64, seed=seed) for seed in range(4))
    with torch.enable_grad():
        q, k = q.requires_grad_(), k.requires_grad_()
        for impl in ("cpu", "torch"):
            found.append(torch.autograd.grad(rotate(q, k, table, impl=impl), (q, k), upstream))
    return worst(apart(a, b) for a, b in zip(*found, strict=True))


def table_entries() -> float:
    """cos and sin to position 16,000,000 against torch's float64, rounded once."""
    frequencies = inv_freq(128, 1e4)
    pairs: list[tuple[Tensor, Tensor]] = list(
        zip(tables(PLACES, frequencies, 1.0), cos_sin(PLACES, frequencies), strict=True)
    )
    return worst(apart(mine, theirs) for mine, theirs in pairs)


ROTATION = Check(
    "kernel: rotation", "The compiled rotation gives the bits of torch's operators.", "identity", 0.0, rotations
)
GRADIENT = Check("kernel: gradient", "So does its gradient.", "identity", 0.0, gradients)
TABLES = Check(
    "kernel: tables", "Its tables are float64's rounded once, but for a last bit.", "identity", 2.0**-24, table_entries
)
CHECKS = (ROTATION, GRADIENT, TABLES) if cpu.missing is None else ()
