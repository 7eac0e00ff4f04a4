import math

import pytest
import torch

from ropewalk import RopewalkError, positions
from ropewalk.functional import sinusoidal, sinusoidal_shift


def by_hand(position: int, dim: int, over: int | None = None) -> list[float]:
    """Vaswani et al. 2017, section 3.5, in Python's own arithmetic; `over` stands for dim in the exponent."""
    values = []
    for k in range(dim // 2):
        angle = position / 10000 ** (2 * k / (over or dim))
        values += [math.sin(angle), math.cos(angle)]
    return values


@pytest.mark.parametrize("position", [0, 1, 19, 100_003])
def test_equals_the_paper(position):
    table = sinusoidal(torch.tensor([position]), 32)[0]
    torch.testing.assert_close(table, torch.tensor(by_hand(position, 32)), rtol=0, atol=1e-7)


def test_orders_hold_the_same_columns():
    where = positions.arange(5)
    interleaved, sin_cos, cos_sin = (sinusoidal(where, 8, order=o) for o in ("interleaved", "sin_cos", "cos_sin"))
    assert torch.equal(sin_cos, torch.cat((interleaved[:, 0::2], interleaved[:, 1::2]), -1))
    assert torch.equal(cos_sin, torch.cat((interleaved[:, 1::2], interleaved[:, 0::2]), -1))


@pytest.mark.parametrize(("change", "message"), [
    ({"dim": 0}, "dim=0"), ({"grid": "t2t"}, "grid='t2t'"),
    ({"order": "cos"}, "order='cos'"), ({"base": 1.0}, "base=1.0"),
    ({"positions": torch.tensor([0.5])}, "give a tensor of integers"),
])  # fmt: skip
def test_refusals(change, message):
    with pytest.raises(RopewalkError, match=message):
        sinusoidal(**{"positions": positions.arange(3), "dim": 8, **change})


@pytest.mark.parametrize("dim", [1, 2, 3, 5, 8, 33])
@pytest.mark.parametrize("order", ["interleaved", "sin_cos", "cos_sin"])
def test_odd_widths_have_a_sine_more(dim, order):
    where = torch.tensor([0, 1, 77])
    expected = torch.tensor([by_hand(p, dim + dim % 2, over=dim) for p in where.tolist()])[:, :dim]
    if order != "interleaved":
        sines, cosines = expected[:, 0::2], expected[:, 1::2]
        expected = torch.cat((sines, cosines) if order == "sin_cos" else (cosines, sines), -1)
    torch.testing.assert_close(sinusoidal(where, dim, order=order), expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("dim", [2, 3, 8, 9, 512])
def test_the_grid_of_tensor2tensor(dim):
    """tensor2tensor's `get_timing_signal_1d`: frequencies from 1 to exactly 1 / base, a column of zeros when odd."""
    where = [0, 1, 50]
    step = math.log(10000.0) / max(dim // 2 - 1, 1)
    angles = [[p * math.exp(-step * k) for k in range(dim // 2)] for p in where]
    expected = torch.tensor(
        [[math.sin(a) for a in row] + [math.cos(a) for a in row] + [0.0] * (dim % 2) for row in angles]
    )
    found = sinusoidal(torch.tensor(where), dim, order="sin_cos", grid="tensor2tensor")
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-7)


def test_a_grid_is_no_permutation_of_the_other():
    vaswani, t2t = (sinusoidal(torch.tensor([9]), 8, grid=grid)[0] for grid in ("vaswani", "tensor2tensor"))
    assert not torch.allclose(vaswani.sort().values, t2t.sort().values, atol=1e-2)


@pytest.mark.parametrize(("arguments", "message"), [
    ((1, 7), "dim=7 is odd"), ((0.5, 8), "offset"), ((1, 0), "dim=0"),
])  # fmt: skip
def test_refusals_of_the_shift(arguments, message):
    with pytest.raises(RopewalkError, match=message):
        sinusoidal_shift(*arguments)
