"""The claims, against numbers that others have printed and against what is plain."""

import math

import pytest
import torch

from ropewalk.compare.claims import claims, turned_score

CLAIMS = claims()


def test_decay():
    """The aligned score first falls below 0 at 725 for heads of 64, and rises at 6: no monotone decay."""
    decay = CLAIMS["decay"]
    assert (decay["first_negative"], decay["first_rise"]) == (725, 6)
    assert decay["aligned"][0] == 1
    expected = sum(math.cos(2 * 10_000 ** (-i / 32)) for i in range(32)) / 32
    assert decay["aligned"][decay["distances"].index(2)] == pytest.approx(expected, abs=1e-12)
    assert max(map(abs, decay["random_mean"])) < 4 / math.sqrt(256 * 64)  # four standard errors of zero


def test_a_turned_score_is_that_of_the_matrices():
    """q . R(angle) k of one pair is |q| |k| cos(the angle from k to q, less the turn)."""
    q, k = torch.tensor([[[0.6, 0.8]]], dtype=torch.float64), torch.tensor([[[1.0, 0.0]]], dtype=torch.float64)
    turn = torch.tensor([0.3], dtype=torch.float64)
    assert turned_score(q, k, turn) == pytest.approx(math.cos(math.atan2(0.8, 0.6) - 0.3))


def test_uniqueness():
    """|PE(p) - PE(p + 1)|^2 is the sum of 2 - 2 cos(theta_i)."""
    found = CLAIMS["uniqueness"]
    apart = math.sqrt(sum(2 - 2 * math.cos(10_000 ** (-i / 32)) for i in range(32)))
    assert found["shift"] == 1
    assert found["nearest"] == pytest.approx(apart, rel=1e-6)


def test_shuffling():
    found = CLAIMS["shuffling"]
    assert found["attention"] < 1e-14
    assert min(found["rnn"], found["convolution"]) > 0.1
