"""The claims, against numbers that others have printed and against what is plain."""

import math

import pytest

from ropewalk.compare.claims import claims

CLAIMS = claims()


def test_decay():
    """The aligned score first falls below 0 at 725 for heads of 64, and rises at 6: no monotone decay."""
    decay = CLAIMS["decay"]
    assert (decay["first_negative"], decay["first_rise"]) == (725, 6)
    assert decay["aligned"][0] == 1
    expected = sum(math.cos(2 * 10_000 ** (-i / 32)) for i in range(32)) / 32
    assert decay["aligned"][decay["distances"].index(2)] == pytest.approx(expected, abs=1e-12)
    assert max(map(abs, decay["random_mean"])) < 4 / math.sqrt(256 * 64)  # four standard errors of zero


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
