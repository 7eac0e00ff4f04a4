"""Blocks are computed again in the backward pass: from what the forward pass was given, whatever happened meanwhile."""

import pytest
import torch

from ropewalk import ALiBi, Encoding, attend
from ropewalk.attention import blocks


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "LOGITS", 1)
    monkeypatch.setattr(blocks, "LEAST_ROWS", 3)


class Noisy(Encoding):
    """A bias that is drawn anew at each call."""

    def bias(self, q_positions, k_positions):
        return torch.randn(1, len(q_positions), len(k_positions), dtype=torch.float64)


def test_random_numbers_are_drawn_again():
    q, k = (torch.randn(1, 1, 8, 4, dtype=torch.float64) for _ in range(2))

    def loss(q):
        torch.manual_seed(5)
        return attend(q, k, k, causal=True, encoding=Noisy()).square().sum()

    step, leaf = torch.zeros_like(q), q.clone().requires_grad_()
    step[0, 0, 5, 2] = 1e-6
    torch.manual_seed(5)
    output = loss(leaf)
    torch.manual_seed(99)
    (gradient,) = torch.autograd.grad(output, leaf)
    slope = (loss(q + step) - loss(q - step)) / 2e-6
    assert gradient[0, 0, 5, 2].item() == pytest.approx(slope.item(), rel=1e-5)


def test_positions_overwritten_meanwhile_change_nothing():
    q, k = torch.randn(1, 2, 8, 4, requires_grad=True), torch.randn(1, 2, 8, 4)
    gradients = []
    for overwrite in (False, True):
        where = torch.arange(8)
        output = attend(q, k, k, causal=True, encoding=ALiBi(2), q_positions=where)
        if overwrite:
            where.zero_()
        gradients.append(torch.autograd.grad(output.square().sum(), q)[0])
    assert torch.equal(*gradients)
