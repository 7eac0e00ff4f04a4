import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.measure.curves import Curve
from ropewalk.measure.verdict import holds_to, judge, resampling_unit, short_cost

NATIVE, EDGES = 64, tuple(range(0, 257, 8))


def flat(level: float, rows: int = 50) -> Curve:
    losses = np.full((rows, 256), level, dtype=np.float32)
    losses[:, 0] = np.nan
    return Curve(losses, EDGES)


def climbing(start: int, rate: float, noise: float = 0.0, rows: int = 50) -> Curve:
    """Level with crop up to `start`, then `rate` nats more at every token."""
    excess = rate * np.maximum(0, np.arange(256) - start)
    losses = 2.0 + excess + noise * np.random.default_rng(0).standard_normal((rows, 256))
    return Curve(losses.astype(np.float32), EDGES)


def test_holds_to_the_end_of_the_last_bucket_in_tolerance():
    verdict = judge(climbing(100, 0.02), flat(2.0), flat(2.0), NATIVE)
    assert verdict.holds_to == 104  # mean excess of 96..103 is 0.015 + ..., of 104..111 above 0.1
    assert (verdict.low, verdict.high) == (104, 104)  # no noise, no width
    assert verdict.short_cost == pytest.approx(0)


def test_the_interval_widens_with_noise_and_holds_the_value():
    verdict = judge(climbing(100, 0.004, noise=1.0), flat(2.0), flat(2.0), NATIVE)
    assert verdict.low <= verdict.holds_to <= verdict.high
    assert verdict.low < verdict.high


def test_short_texts_pay_for_their_own_tokens_alone():
    """A method that is level up to token 16 and loses 1 nat more at each token after it."""
    method = climbing(16, 1.0)
    assert short_cost(method, flat(2.0), 16) == pytest.approx(0)
    assert short_cost(method, flat(2.0), 20) == pytest.approx((1 + 2 + 3) / 19)
    assert short_cost(method, flat(2.0), NATIVE) == judge(method, flat(2.0), flat(2.0), NATIVE).short_cost


def test_the_band_of_a_bucket_is_as_wide_as_its_mean_is_uncertain():
    """Independent normal losses: 1.96 standard errors of a mean over rows x width tokens, to each side."""
    verdict = judge(climbing(256, 0.0, noise=0.5, rows=400), flat(2.0, rows=400), flat(2.0, rows=400), NATIVE)
    error = 1.96 * 0.5 / np.sqrt(400 * 8)
    np.testing.assert_allclose(verdict.excess_high[1:] - verdict.excess[1:], error, rtol=0.25)
    np.testing.assert_allclose(verdict.excess[1:] - verdict.excess_low[1:], error, rtol=0.25)
    assert np.mean((verdict.excess_low <= 0) & (verdict.excess_high >= 0)) > 0.8  # the truth is 0 in all 32


def test_without_noise_the_band_is_the_line():
    verdict = judge(climbing(100, 0.02), flat(2.0), flat(2.0), NATIVE)
    np.testing.assert_allclose(verdict.excess_low, verdict.excess, atol=1e-6)
    np.testing.assert_allclose(verdict.excess_high, verdict.excess, atol=1e-6)


def test_short_cost_is_against_the_unscaled_model_within_native_alone():
    none = climbing(64, 1.0)
    verdict = judge(flat(2.25), flat(2.0), none, NATIVE)
    assert verdict.short_cost == pytest.approx(0.25)
    assert verdict.holds_to == NATIVE


@given(st.lists(st.floats(-1, 1), min_size=32, max_size=32))
def test_holds_to_is_contiguous_from_native_on(excess):
    reached = holds_to(np.array(excess), EDGES, NATIVE, 0.1)
    assert NATIVE <= reached <= 256
    assert all(e <= 0.1 for e, end in zip(excess, EDGES[1:], strict=True) if NATIVE < end <= reached)
    if reached < 256:
        assert excess[EDGES.index(reached)] > 0.1


def test_what_happens_within_native_does_not_count_and_nan_ends_it():
    excess = np.array([5.0] * 8 + [0.0] * 8 + [np.nan] + [0.0] * 15)
    assert holds_to(excess, EDGES, NATIVE, 0.1) == 128


def test_few_documents_are_resampled_by_blocks_within_a_bucket():
    assert resampling_unit(40, 1024) == "documents"
    assert resampling_unit(39, 1024) == "blocks of 128 tokens"
    assert resampling_unit(1, 32) == "blocks of 4 tokens"
    assert resampling_unit(1, 16384) == "blocks of 1024 tokens"


@pytest.mark.parametrize("rows", [1, 5, 60])
def test_the_interval_covers_the_truth_about_as_often_as_it_says(rows):
    """Crop lies level, the method's excess is 0.1 +- noise in one bucket: does the interval span both outcomes?"""
    edges, native = (0, 64, 128, 192), 64
    crop, spans = Curve(np.full((rows, 192), 2.0, dtype=np.float32), edges), 0
    for seed in range(20):
        losses = 2.1 + np.random.default_rng(seed).standard_normal((rows, 192))
        verdict = judge(Curve(losses.astype(np.float32), edges), crop, crop, native)
        spans += verdict.low == 64 and verdict.high == 192
        assert verdict.low <= verdict.holds_to <= verdict.high
    assert spans >= 15  # at the tolerance itself, each bucket is a toss of a coin


def test_more_documents_narrow_the_interval():
    """A clear excess is called so by many documents, and left open by few."""
    edges, native = (0, 64, 128), 64
    widths = []
    for rows in (1, 100):
        losses = 2.25 + np.random.default_rng(0).standard_normal((rows, 128))
        crop = Curve(np.full((rows, 128), 2.0, dtype=np.float32), edges)
        verdict = judge(Curve(losses.astype(np.float32), edges), crop, crop, native)
        widths.append(verdict.high - verdict.low)
    assert widths == [64, 0]
