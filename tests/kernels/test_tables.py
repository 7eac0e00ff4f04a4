"""The compiled tables: torch's float64, rounded once, at every position."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import ropewalk as rw
from ropewalk.functional.rotary import cos_sin, inv_freq
from ropewalk.kernels import cpu, tables

needs_kernel = pytest.mark.skipif(cpu.missing is not None, reason=f"the CPU kernel: {cpu.missing}")


def steps_apart(one, other):
    """How many float32 numbers lie between them, at most; the sign of zero is not looked at."""
    ordered = [
        torch.where(x.view(torch.int32) < 0, -(x.view(torch.int32) & 0x7FFFFFFF), x.view(torch.int32))
        for x in (one, other)
    ]
    return (ordered[0].long() - ordered[1].long()).abs()


@needs_kernel
@settings(max_examples=150, deadline=None)
@given(
    start=st.integers(-(2**33), 2**33) | st.integers(0, 2**24),
    base=st.sampled_from((10.0, 1e4, 5e5, 1e7)),
    pairs=st.integers(1, 67),
    factor=st.sampled_from((1.0, 1.2079, 0.5)),
)
def test_they_are_float64_rounded_once(start, base, pairs, factor):
    positions, frequencies = torch.arange(start, start + 40), inv_freq(2 * pairs, base)
    for mine, expected in zip(
        tables(positions, frequencies, factor), cos_sin(positions, frequencies, factor), strict=True
    ):
        # an angle that differs in its last bit moves a value near zero by many of its own small steps
        assert (mine.double() - expected.double()).abs().max() <= 2**-24 * max(factor, 1)
        assert (steps_apart(mine, expected) > 1).double().mean() < 0.01


@needs_kernel
def test_hardly_one_entry_in_a_million_differs():
    positions, frequencies = torch.arange(16_000_000, 16_032_768), inv_freq(128, 1e4)
    for mine, expected in zip(tables(positions, frequencies, 1.0), cos_sin(positions, frequencies), strict=True):
        assert (mine != expected).sum() <= 2
        assert steps_apart(mine, expected).max() <= 1


@needs_kernel
@pytest.mark.parametrize("shape", [(1,), (0,), (3, 5), (2, 0), (130,)])
def test_any_shape_of_positions(shape):
    positions = torch.arange(int(torch.tensor(shape).prod())).view(shape)
    for mine, expected in zip(
        tables(positions, inv_freq(16, 1e4), 1.0), cos_sin(positions, inv_freq(16, 1e4)), strict=True
    ):
        assert mine.shape == expected.shape
        assert torch.equal(mine, expected)


def test_whatever_the_kernel_does_not_take_is_served_all_the_same():
    positions, frequencies = torch.arange(12).view(3, 4), inv_freq(16, 1e4)
    rows = torch.stack((frequencies, frequencies / 2, frequencies))
    for given_positions, given_frequencies in (
        (positions.int(), frequencies), (positions.t(), frequencies), (positions, frequencies.float()),
        (positions[:1, :3].expand(3, 3), frequencies), (positions, rows),
    ):  # fmt: skip
        assert all(
            map(
                torch.equal,
                tables(given_positions, given_frequencies, 1.0),
                cos_sin(given_positions, given_frequencies),
            )
        )


@needs_kernel
def test_the_operator_is_what_torch_expects_and_checks_what_it_reads():
    torch.library.opcheck(torch.ops.ropewalk.tables, (torch.arange(5), inv_freq(8, 1e4), 1.0))
    refused = [
        (torch.arange(5.0), inv_freq(8, 1e4)),
        (torch.arange(5), inv_freq(8, 1e4).float()),
        (torch.arange(10)[::2], inv_freq(8, 1e4)),
        (torch.arange(5), torch.ones(2, 2).double()),
    ]
    for positions, frequencies in refused:
        with pytest.raises(RuntimeError, match="ropewalk::tables"):
            torch.ops.ropewalk.tables(positions, frequencies, 1.0)


def test_frequencies_that_learn_get_their_gradient():
    frequencies = inv_freq(8, 1e4).requires_grad_()
    cos, _ = tables(torch.arange(4), frequencies, 1.0)
    assert torch.autograd.grad(cos.sum(), frequencies)[0].abs().sum() > 0


@needs_kernel
def test_the_encoding_uses_them():
    rope = rw.Rotary(64)
    assert all(map(torch.equal, rope.tables(torch.arange(100)), tables(torch.arange(100), rope.inv_freq, 1.0)))
