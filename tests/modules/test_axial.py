"""Positions with several coordinates: laws that hold whichever pair looks at whichever axis."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ropewalk import RopewalkError, Rotary, YaRN
from ropewalk.modules.axial import AxialRotary
from ropewalk.testing import rotate_complex

AXES = (0, 0, 1, 1, 2, 2, 2, 0)
POSITIONS = torch.tensor([[0, 0, 1, 7], [0, 3, 3, 9], [2, 0, 5, 11]])


def heads(tokens: int, dim: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(2, count, tokens, dim, generator=generator, dtype=torch.float64) for count in (4, 2))


@given(layout=st.sampled_from(["half", "interleaved"]), axes=st.permutations(AXES))
def test_text_has_equal_coordinates_and_turns_as_plain_rotary_does(layout, axes):
    q, k = heads(4)
    positions = torch.tensor([3, 4, 5, 9])
    plain = Rotary(16, layout=layout).rotate(q, k, positions, positions)
    equal = positions.expand(3, -1)
    for ours, theirs in zip(AxialRotary(16, axes=axes, layout=layout).rotate(q, k, equal, equal), plain, strict=True):
        torch.testing.assert_close(ours, theirs)


@given(by=st.lists(st.integers(0, 1000), min_size=3, max_size=3))
def test_scores_depend_on_the_distance_along_each_axis(by):
    q, k = heads(4)
    rope, moved = AxialRotary(16, axes=AXES), POSITIONS + torch.tensor(by)[:, None]
    k = k.repeat_interleave(2, dim=1)
    here, there = (q_ @ k_.mT for q_, k_ in (rope.rotate(q, k, p, p) for p in (POSITIONS, moved)))
    torch.testing.assert_close(here, there, atol=2e-5, rtol=0)


def test_each_pair_turns_by_its_own_axis():
    """Pair by pair, against complex multiplication at that pair's own coordinate."""
    q, _ = heads(4)
    frequencies = Rotary(16).inv_freq
    turned, _ = AxialRotary(16, axes=AXES).rotate(q, q, POSITIONS, POSITIONS)
    for pair, axis in enumerate(AXES):
        both = q[..., [pair, pair + 8]]
        want = rotate_complex(both, POSITIONS[axis].double()[:, None] * frequencies[pair])
        torch.testing.assert_close(turned[..., [pair, pair + 8]], want.to(turned.dtype), atol=1e-6, rtol=0)


def test_rows_of_their_own_and_slots():
    rope = AxialRotary(8, axes=[0, 0, 1, 1], slots=[0, 1, 0, 1], grid=4)
    assert torch.equal(rope.inv_freq, Rotary(4).inv_freq.repeat(2))
    grid = torch.tensor([[0, 0, 1, 1], [0, 1, 0, 1]])
    rows = torch.stack([grid, grid.flip(0)], dim=1)  # [A, B, T]
    cos, _ = rope.tables(rows)
    assert torch.equal(cos[0], rope.tables(grid)[0])
    assert torch.equal(cos[1], rope.tables(grid.flip(0))[0])


def test_a_scaling_reaches_every_axis():
    scaled = AxialRotary(16, axes=AXES, scaling=YaRN(4.0, 64))
    assert torch.equal(scaled.inv_freq, Rotary(16, scaling=YaRN(4.0, 64)).inv_freq)
    assert scaled.attention_factor > 1


@pytest.mark.parametrize(("build", "message"), [
    (lambda: AxialRotary(16, axes=[0, -1]), "axes=-1"),
    (lambda: AxialRotary(16, axes=[0, 1], slots=[0]), "1 slots for 2 pairs"),
    (lambda: AxialRotary(4, axes=[0, 0, 1]), "wider than the head"),
    (lambda: AxialRotary(16, axes=AXES).tables(torch.arange(4)), "give 3 rows, one an axis"),
    (lambda: AxialRotary(16, axes=AXES).tables(torch.zeros(2, 4, dtype=torch.int64)), "give 3 rows, one an axis"),
    (lambda: AxialRotary(16, axes=AXES).tables(torch.zeros(3, 4)), "give a tensor of integers"),
])  # fmt: skip
def test_bad_input(build, message):
    with pytest.raises(RopewalkError, match=message):
        build()
