"""Keys that were rotated already: moved, or put under another scaling, they are what a fresh rotation gives."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import bases, layouts, length_dependent_scalings, scalings_by_row, static_scalings
from torch import Tensor

from ropewalk import DynamicNTK, Linear, LongRoPE, RopewalkError, Rotary, Tempered, YaRN
from ropewalk.functional import inv_freq
from ropewalk.modules.axial import AxialRotary
from ropewalk.testing import attend_densely, rotate_complex

HEAD, KEYS = 64, 5
KINDS = {
    "half": {},
    "interleaved": {"layout": "interleaved"},
    "leading": {"rotary_dim": 24},
    "trailing": {"rotary_dim": 24, "block": "trailing"},
    "trailing interleaved": {"rotary_dim": 24, "block": "trailing", "layout": "interleaved"},
    "reverse": {"reverse": True},
    "yarn": {"scaling": YaRN(factor=4.0, original_length=64)},
}
kinds = st.sampled_from(sorted(KINDS))
places = st.lists(st.integers(0, 16_000_000), min_size=KEYS, max_size=KEYS).map(torch.tensor)
moves = st.integers(-100_000, 100_000)


def keys(*, rows: int = 2, dtype: torch.dtype = torch.float64, seed: int = 0, tokens: int = KEYS) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 3, tokens, HEAD, generator=generator, dtype=torch.float64).to(dtype)


def rotated(rope: Rotary, k: Tensor, where: Tensor, length: int | Tensor | None = None) -> Tensor:
    return rope(k, k, where, length)[1]


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=4e-6)  # three tables, each rounded to float32


@given(kind=kinds, where=places, by=moves)
def test_shifted_keys_are_those_of_a_fresh_rotation(kind, where, by):
    rope, k = Rotary(HEAD, **KINDS[kind]), keys()
    close(rope.shift(rotated(rope, k, where), by), rotated(rope, k, where + by))


@given(layout=layouts, base=bases, where=places, by=places)
def test_shifted_keys_are_those_of_complex_multiplication(layout, base, where, by):
    """An oracle that shares no code: no tables, no rounding to float32, and a `by` for each key."""
    rope, k, frequencies = Rotary(HEAD, base=base, layout=layout), keys(), inv_freq(HEAD, base)
    written = rotate_complex(k, where[:, None] * frequencies, layout=layout)
    expected = rotate_complex(k, (where - by)[:, None] * frequencies, layout=layout)
    torch.testing.assert_close(rope.shift(written, -by), expected, rtol=0, atol=1e-6)


@given(kind=kinds, where=places, by=moves, dtype=st.sampled_from([torch.float64, torch.float32, torch.bfloat16]))
def test_nothing_moves_by_0_and_float64_comes_back(kind, where, by, dtype):
    rope, k = Rotary(HEAD, **KINDS[kind]), keys(dtype=dtype)
    written = rotated(rope, k, where)
    assert torch.equal(rope.shift(written, 0), written)
    assert rope.shift(written, by).dtype == dtype
    if dtype == torch.float64:
        close(rope.shift(rope.shift(written, by), -by), written)
        close(rope.shift(rope.shift(written, by), 7), rope.shift(written, by + 7))


def test_rows_and_keys_have_their_own_moves():
    rope, k, where = Rotary(HEAD), keys(rows=3), torch.arange(100, 100 + KEYS)
    written, each = rotated(rope, k, where), torch.tensor([[-3], [50], [0]])
    assert torch.equal(rope.shift(written, each), rope.shift(written, each.expand(3, KEYS)))
    for row in range(3):
        assert torch.equal(rope.shift(written, each)[row], rope.shift(written[row : row + 1], int(each[row]))[0])
    close(rope.shift(written, torch.arange(KEYS)), rotated(rope, k, where + torch.arange(KEYS)))


def test_scores_after_an_eviction_are_those_of_a_prefill_of_what_is_left():
    """Four sinks stay, 10 tokens go, the rest closes ranks, and a new query follows."""
    rope = Rotary(HEAD, scaling=YaRN(factor=4.0, original_length=64))
    k, v, q = keys(tokens=40), keys(tokens=40, seed=1), keys(tokens=1, seed=2)
    written = rotated(rope, k, torch.arange(40))
    kept = torch.cat((written[:, :, :4], rope.shift(written[:, :, 14:], -10)), dim=2)
    left = [*range(4), *range(14, 40)]
    query = rotated(rope, q, torch.tensor([30]))
    found = attend_densely(query, kept, v[:, :, left])
    expected = attend_densely(query, rotated(rope, k[:, :, left], torch.arange(30)), v[:, :, left])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    # The same distances, with no recent key touched: the sinks go forward and the query stays where it was.
    forward = torch.cat((rope.shift(written[:, :, :4], 10), written[:, :, 14:]), dim=2)
    found = attend_densely(rotated(rope, q, torch.tensor([40])), forward, v[:, :, left])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("dtype", "once", "often"), [(torch.bfloat16, 3e-3, 0.4), (torch.float16, 4e-4, 0.04)])
def test_a_thousand_shifts_drift_and_one_shift_of_what_was_written_does_not(dtype, once, often):
    """In bfloat16 half of the norm: what a slow pair turns in one step is less than its numbers can say."""
    rope, k, where = Rotary(HEAD), keys(tokens=100), torch.arange(1000, 1100)
    written, expected = rotated(rope, k, where).to(dtype), rotated(rope, k, where - 1000)
    again = written
    for _ in range(1000):
        again = rope.shift(again, -1)

    def error(found: Tensor) -> float:
        return ((found.double() - expected).norm() / expected.norm()).item()

    assert error(rope.shift(written, -1000)) < once
    assert error(again) > often
    stuck = (again == written)[..., HEAD - 1].float().mean()
    assert stuck > (0.9 if dtype == torch.bfloat16 else 0.6)


@given(old=static_scalings, new=static_scalings, where=places, kind=kinds)
def test_rescaled_keys_are_those_rotated_under_the_other_scaling(old, new, where, kind):
    layout = {"layout": KINDS[kind].get("layout", "half"), "reverse": kind == "reverse"}
    rope, k = Rotary(HEAD, **layout), keys()
    one, other = Rotary(HEAD, scaling=old, **layout), Rotary(HEAD, scaling=new, **layout)
    written = rotated(one, k, where)
    close(rope.rescale(written, where, old=old, new=new), rotated(other, k, where))
    close(one.rescale(written, where, new=new), rotated(other, k, where))
    close(one.rescale(written, where, new=Linear(1.0)), rotated(rope, k, where))
    close(rope.rescale(rotated(rope, k, where), where, new=new), rotated(other, k, where))
    assert torch.equal(one.rescale(written, where), written)


@given(scaling=static_scalings, where=places)
def test_rescaled_keys_are_those_of_complex_multiplication(scaling, where):
    k, plain = keys(), inv_freq(HEAD, 10_000.0)
    scaled, factor = scaling.apply(plain, base=10_000.0)
    written = rotate_complex(k, where[:, None] * plain)
    found = Rotary(HEAD).rescale(written, where, new=scaling)
    torch.testing.assert_close(found, factor * rotate_complex(k, where[:, None] * scaled), rtol=0, atol=2e-6)


@given(scaling=length_dependent_scalings, old=st.integers(1, 300_000), new=st.integers(1, 300_000), where=places)
def test_a_longer_sequence(scaling, old, new, where):
    rope, k = Rotary(HEAD, scaling=scaling), keys()
    written = rotated(rope, k, where, old)
    found = rope.rescale(written, where, old_length=old, new_length=new)
    close(found, rotated(rope, k, where, new))
    close(rope.shift(found, -100, length=new), rotated(rope, k, where - 100, new))
    assert torch.equal(rope.rescale(written, where, old_length=old, new_length=old), written)


@given(scaling=scalings_by_row, lengths=st.lists(st.integers(1, 300_000), min_size=2, max_size=2), where=places)
def test_rows_of_their_own_lengths(scaling, lengths, where):
    rope, k, lengths = Rotary(HEAD, scaling=scaling), keys(), torch.tensor(lengths)
    written = rotated(rope, k, where.expand(2, -1), lengths)
    found = rope.rescale(written, where, old_length=lengths[:, None], new_length=500_000)
    close(found, rotated(rope, k, where, 500_000))


@given(scaling=scalings_by_row)
def test_keys_that_were_each_rotated_at_the_length_of_their_day(scaling):
    """What a cache of rotated keys holds after decoding past the native length."""
    rope, k, start = Rotary(HEAD, scaling=scaling), keys(), scaling.original_length - 2
    where = torch.arange(start, start + KEYS)
    steps = [rotated(rope, k[:, :, [i]], where[[i]], int(where[i]) + 1) for i in range(KEYS)]
    found = rope.rescale(torch.cat(steps, dim=2), where, old_length=where[None] + 1, new_length=start + KEYS)
    close(found, rotated(rope, k, where, start + KEYS))


def test_the_attention_factor_is_undone_and_applied_once():
    rope, k, where = Rotary(HEAD), keys(), torch.arange(KEYS)
    hot, cold = Tempered(Linear(2.0), 3.0), Tempered(Linear(2.0), 0.5)
    written = rotated(Rotary(HEAD, scaling=hot), k, where)
    torch.testing.assert_close(rope.rescale(written, where, old=hot, new=cold), written / 6, rtol=1e-7, atol=0)
    scaled = Rotary(HEAD, scaling=hot)
    torch.testing.assert_close(scaled.shift(written, 9).norm(dim=-1), written.norm(dim=-1))
    passed = Rotary(HEAD, rotary_dim=24).rescale(written, where, new=hot)
    assert torch.equal(passed[..., 24:], written[..., 24:])


@given(kind=kinds, by=moves)
def test_the_gradient_is_moved_back(kind, by):
    rope = Rotary(HEAD, **KINDS[kind])
    k, upstream = keys().requires_grad_(), keys(seed=1)
    (gradient,) = torch.autograd.grad(rope.shift(k, by), k, upstream)
    torch.testing.assert_close(gradient, rope.shift(upstream, -by), rtol=0, atol=1e-12)


@given(by=st.lists(st.integers(-1000, 1000), min_size=3, max_size=3), groups=st.sampled_from([1, 2]))
def test_positions_of_several_coordinates(by, groups):
    rope = AxialRotary(HEAD, axes=[0, 1, 2, 1] * 8, groups=groups)
    where, k, by = torch.arange(3 * KEYS).reshape(KEYS, 3).T * 600, keys(), torch.tensor(by)[:, None]
    close(rope.shift(rotated(rope, k, where), by), rotated(rope, k, where + by))
    close(rope.shift(rotated(rope, k, where), by.expand(3, KEYS)), rotated(rope, k, where + by))
    close(rope.shift(rotated(rope, k, where), 17), rotated(rope, k, where + 17))
    scaled = AxialRotary(HEAD, axes=[0, 1, 2, 1] * 8, groups=groups, scaling=YaRN(4.0, 64))
    close(rope.rescale(rotated(rope, k, where), where, new=YaRN(4.0, 64)), rotated(scaled, k, where))


def test_text_in_an_m_rope_model_moves_as_plain_rotary_does():
    k, where = keys(), torch.arange(KEYS)
    rope, plain = AxialRotary(HEAD, axes=[0, 1, 2, 1] * 8), Rotary(HEAD)
    close(rope.shift(rotated(rope, k, where.expand(3, -1)), -3), rotated(plain, k, where - 3))


def test_the_meta_device_and_low_precision_modules():
    k = keys()
    assert Rotary(HEAD).shift(k.to("meta"), 3).is_meta
    assert torch.equal(Rotary(HEAD).bfloat16().shift(k, 3), Rotary(HEAD).shift(k, 3))


def test_compiled_it_is_one_graph():
    rope, k = Rotary(HEAD), keys(dtype=torch.float32)
    compiled = torch.compile(rope.shift, fullgraph=True, backend="aot_eager")
    for by in (3, -40, torch.arange(KEYS)):
        torch.testing.assert_close(compiled(k, by), rope.shift(k, by))


DYNAMIC = DynamicNTK(factor=2.0, original_length=8)
LONG = LongRoPE([1.0] * 32, [4.0] * 32, original_length=8)


@pytest.mark.parametrize(("call", "message"), [
    (lambda rope, k: rope.shift(k, 1.5), "give a tensor of integers"),
    (lambda rope, k: rope.shift(k, torch.ones(KEYS)), "give a tensor of integers"),
    (lambda rope, k: rope.shift(k, torch.arange(3)), "does not fit a table"),
    (lambda rope, k: rope.shift(k[..., :32], 1), "a head of width 32"),
    (lambda rope, k: rope.rescale(k, torch.arange(1), new=LONG, new_length=9), "does not fit a table"),
    (lambda rope, k: rope.rescale(k, torch.arange(KEYS).float()), "give a tensor of integers"),
    (lambda rope, k: rope.rescale(k, torch.arange(KEYS), new="yarn"), "'yarn' is no scaling"),
    (lambda rope, k: rope.rescale(k, torch.arange(KEYS), new=DYNAMIC), "depend on the length; give new_length"),
    (lambda rope, k: rope.rescale(k, torch.arange(KEYS), old=LONG), "depend on the length; give old_length"),
    (lambda rope, k: Rotary(HEAD, scaling=LONG).shift(k, 1), "depend on the length; give length"),
    (lambda rope, k: rope.rescale(k, torch.arange(KEYS), new=LONG, new_length=torch.arange(KEYS)),
     r"new_length of shape \[5\] for 5 keys"),
    (lambda rope, k: rope.rescale(k, torch.arange(KEYS), new=LONG, new_length=torch.ones(1, 3)),
     r"new_length of shape \[1, 3\] for 5 keys"),
    (lambda rope, k: AxialRotary(HEAD, axes=[0, 1] * 16).shift(k, torch.arange(KEYS)), "give 2 rows, one an axis"),
    (lambda rope, k: AxialRotary(HEAD, axes=[0, 1] * 16, scaling=DYNAMIC).shift(k, 1, length=torch.ones(2, 1)),
     "one length for all"),
])  # fmt: skip
def test_bad_input(call, message):
    with pytest.raises(RopewalkError, match=message):
        call(Rotary(HEAD), keys())
