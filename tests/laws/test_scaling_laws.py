"""What every scaling must satisfy."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import PAIRS, bases, length_dependent_scalings, lengths, scalings, scalings_by_row, static_scalings

from ropewalk import RopewalkError
from ropewalk.functional import inv_freq
from ropewalk.scaling import (
    NTK,
    DynamicNTK,
    DynamicYaRN,
    Linear,
    Llama3,
    LongRoPE,
    MrRoPE,
    NTKCritical,
    Proportional,
    Tempered,
    YaRN,
)

ONES = [1.0] * PAIRS


@pytest.mark.parametrize(
    "scaling",
    [Linear(1), NTK(1), NTKCritical(1, 4096), DynamicNTK(1, 4096), YaRN(1, 4096), YaRN(1, 4096, ramp="paper"),
     Llama3(1, 4096), MrRoPE(1, 4096), Proportional(1.0), LongRoPE(ONES, ONES, 4096), DynamicYaRN(4096),
     Tempered(Linear(1), 1.0)],
    ids=lambda scaling: type(scaling).__name__,
)  # fmt: skip
@given(base=bases)
def test_factor_one_is_the_identity(scaling, base):
    plain = inv_freq(2 * PAIRS, base)
    scaled = scaling.apply(plain, base=base)
    torch.testing.assert_close(scaled.inv_freq, plain, rtol=1e-14, atol=0)
    assert scaled.attention_factor == 1.0


@given(scaling=scalings, base=bases, dtype=st.sampled_from([torch.float32, torch.float64]))
def test_keeps_dtype_and_shape_and_never_speeds_a_pair_up(scaling, base, dtype):
    plain = inv_freq(2 * PAIRS, base, dtype=dtype)
    scaled = scaling.apply(plain, base=base, length=1_000_000)
    assert scaled.inv_freq.dtype == dtype
    assert scaled.inv_freq.shape == plain.shape
    assert (scaled.inv_freq <= plain * (1 + 1e-6)).all()
    assert (scaled.inv_freq >= 0).all()


@given(scaling=static_scalings, base=bases, length=st.integers(1, 10**7))
def test_static_scalings_ignore_the_length(scaling, base, length):
    plain = inv_freq(2 * PAIRS, base)
    assert torch.equal(scaling.apply(plain, base=base).inv_freq, scaling.apply(plain, base=base, length=length)[0])


@given(scaling=length_dependent_scalings, base=bases, data=st.data())
def test_length_dependent_scalings_stand_still_up_to_native(scaling, base, data):
    plain, length = inv_freq(2 * PAIRS, base), data.draw(st.integers(1, scaling.original_length))
    assert torch.equal(scaling.apply(plain, base=base, length=length)[0], scaling.apply(plain, base=base)[0])


@given(scaling=scalings_by_row, base=bases, asked=st.lists(st.integers(1, 10**6), min_size=1, max_size=5))
def test_a_tensor_of_lengths_is_each_length_by_itself(scaling, base, asked):
    plain = inv_freq(2 * PAIRS, base)
    together = scaling.apply(plain, base=base, length=torch.tensor(asked)).inv_freq
    alone = torch.stack([scaling.apply(plain, base=base, length=length).inv_freq for length in asked])
    torch.testing.assert_close(together, alone, rtol=1e-14, atol=0)


@given(factor=st.floats(1.5, 64), base=bases, native=lengths)
def test_the_slowest_pair_is_slowed_by_the_whole_factor(factor, base, native):
    """NTK by construction; the banded methods because the pair never finishes a turn."""
    plain = inv_freq(2 * PAIRS, base)
    for scaling in (Linear(factor), NTK(factor)):
        ratio = plain[-1] / scaling.apply(plain, base=base).inv_freq[-1]
        assert ratio.item() == pytest.approx(factor)
    if plain[-1] * native < 2 * torch.pi * 0.9:
        for scaling in (YaRN(factor, native, ramp="paper"), Llama3(factor, native), MrRoPE(factor, native)):
            ratio = plain[-1] / scaling.apply(plain, base=base).inv_freq[-1]
            assert ratio.item() == pytest.approx(factor)


@given(factor=st.floats(1.5, 64), native=lengths)
def test_ntk_critical_slows_the_critical_pair_by_the_factor(factor, native):
    """A pair of exactly one turn within the native length takes exactly one within factor x native."""
    base = 10_000.0
    grown = NTKCritical(factor, native).base(inv_freq(64, base), base)
    exponent = torch.log(torch.tensor(native / (2 * torch.pi))) / torch.log(torch.tensor(base))
    assert grown ** exponent.item() == pytest.approx(factor * native / (2 * torch.pi), rel=1e-5)


@given(base=bases, native=lengths, length=st.integers(1, 10**6))
def test_dynamic_yarn_is_yarn_of_that_length(base, native, length):
    plain, factor = inv_freq(2 * PAIRS, base), max(1.0, length / native)
    for asked in (length, torch.tensor(length), torch.tensor([length, length])):
        scaled, want = (
            DynamicYaRN(native).apply(plain, base=base, length=asked),
            YaRN(factor, native).apply(plain, base=base),
        )
        assert scaled.inv_freq.shape == (*torch.as_tensor(asked).shape, PAIRS)
        assert (scaled.inv_freq == want.inv_freq).all()
        assert (
            scaled.attention_factor
            == want.attention_factor
            == pytest.approx(1 + 0.1 * max(0, torch.tensor(factor).log()))
        )


def test_dynamic_yarn_has_one_temperature_for_a_batch():
    with pytest.raises(RopewalkError, match="rows of 10 to 9000 tokens; its temperature is one for a batch"):
        DynamicYaRN(4096).apply(inv_freq(2 * PAIRS, 1e4), base=1e4, length=torch.tensor([9000, 10]))


@given(scaling=static_scalings, base=bases, factor=st.floats(0.1, 3.0))
def test_a_temperature_leaves_the_frequencies_alone(scaling, base, factor):
    plain = inv_freq(2 * PAIRS, base)
    own, tempered = scaling.apply(plain, base=base), Tempered(scaling, factor).apply(plain, base=base)
    assert torch.equal(own.inv_freq, tempered.inv_freq)
    assert tempered.attention_factor == factor
    with pytest.raises(RopewalkError, match="Tempered: attention_factor"):
        Tempered(scaling, 0.0)
