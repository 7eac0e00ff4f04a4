import math

import pytest
import torch

from ropewalk import RopewalkError, positions
from ropewalk.functional import sinusoidal


def by_hand(position: int, dim: int) -> list[float]:
    """Vaswani et al. 2017, section 3.5, in Python's own arithmetic."""
    values = []
    for k in range(dim // 2):
        angle = position / 10000 ** (2 * k / dim)
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
