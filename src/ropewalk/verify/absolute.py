"""Checks of the encodings at the input door: sinusoidal and learned."""

import math
from itertools import product
from typing import Any

import torch

from ropewalk._errors import RopewalkError
from ropewalk.functional import sinusoidal, sinusoidal_shift
from ropewalk.functional.sinusoidal import GRIDS, ORDERS
from ropewalk.modules import Learned
from ropewalk.verify.check import Check
from ropewalk.verify.samples import apart, worst

DIM, EXACT = 64, torch.float64
PLACES = torch.tensor([0, 1, 2, 3, 10, 100, 511, 4999, 100_000])


def shift() -> float:
    """PE(pos + k) against M PE(pos)."""
    errors, start = [], PLACES + 3
    for order, grid, k in product(ORDERS, GRIDS, (1, 7, 1000, -3)):
        form: dict[str, Any] = {"order": order, "grid": grid}
        moved = sinusoidal(start, DIM, **form).double() @ sinusoidal_shift(k, DIM, **form).T
        errors.append(apart(moved, sinusoidal(start + k, DIM, **form)))
    return worst(errors)


def bounds() -> float:
    """How far any entry is beyond 1."""
    tables = (sinusoidal(PLACES, DIM, order=order, grid=grid) for order, grid in product(ORDERS, GRIDS))
    return worst((0.0, *(table.abs().max().item() - 1.0 for table in tables)))


def length() -> float:
    """The squared length of every row against dim / 2."""
    tables = (sinusoidal(PLACES, DIM, order=order, grid=grid).double() for order, grid in product(ORDERS, GRIDS))
    return worst((table.square().sum(-1) / (DIM / 2) - 1).abs().max().item() for table in tables)


def formula() -> float:
    """Every order and grid against `math.sin` and `math.cos`."""
    errors = []
    for order, grid in product(ORDERS, GRIDS):
        last = DIM / 2 if grid == "vaswani" else DIM / 2 - 1  # the pair, there or not, whose frequency is 1 / 10000
        angles = [[p * 10_000 ** (-k / last) for k in range(DIM // 2)] for p in PLACES.tolist()]
        sin, cos = (torch.tensor([[f(a) for a in row] for row in angles], dtype=EXACT) for f in (math.sin, math.cos))
        wanted = {"sin_cos": torch.cat((sin, cos), -1), "cos_sin": torch.cat((cos, sin), -1)}
        wanted["interleaved"] = torch.stack((sin, cos), -1).flatten(-2)
        errors.append(apart(sinusoidal(PLACES, DIM, order=order, grid=grid), wanted[order]))
    return worst(errors)


def maximum() -> float:
    """How many of four positions get the wrong answer: a row, or a refusal."""
    table, wrong = Learned(8, DIM), 0
    for position, has_row in ((0, True), (7, True), (8, False), (-1, False)):
        try:
            row = table(torch.zeros(1, 1, DIM), torch.tensor([position]))[0, 0]
            wrong += not (has_row and torch.equal(row, table.weight[position]))
        except RopewalkError:
            wrong += has_row
    return wrong


CHECKS = (
    Check("sinusoidal: shift", "Moving by k tokens is one rotation: PE(pos + k) = M PE(pos).", "identity", 5e-7, shift),
    Check("sinusoidal: bounds", "No entry leaves the range from -1 to 1.", "identity", 0.0, bounds),
    Check("sinusoidal: length", "Every position's row has the same length, sqrt(dim / 2).", "identity", 2e-7, length),
    Check(
        "sinusoidal: formula",
        "Columns 2k and 2k + 1 are sin and cos of pos / 10000^(2k / dim).",
        "float64 twin",
        1e-7,
        formula,
    ),
    Check(
        "learned: maximum",
        "A learned table has a row for each position below its maximum and refuses the next (errors are counted).",
        "identity",
        0.0,
        maximum,
    ),
)
