"""Axial and MRoPE: the scaling of each axis by itself, and the laws of sections."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ropewalk import NTK, Axial, DynamicNTK, Linear, MRoPE, RopewalkError, Rotary, YaRN, attend, positions
from ropewalk.modules.axes import AXIAL
from ropewalk.testing import attend_densely, rotate_complex

WIDTH = 32


def heads(tokens: int, width: int = WIDTH) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(2, n, tokens, width, generator=generator) for n in (4, 2, 2))


def tables_of(rope: Rotary, where: torch.Tensor) -> torch.Tensor:
    return torch.stack(rope.tables(where))


@st.composite
def sections(draw) -> tuple[list[int], bool]:
    sizes = draw(st.lists(st.integers(0, 8), min_size=2, max_size=2))
    return [WIDTH // 2 - sum(sizes), *sizes], draw(st.booleans())


@given(drawn=sections(), start=st.sampled_from([0, 5, 16_000_000]), layout=st.sampled_from(["half", "interleaved"]))
def test_text_turns_as_rotary_bit_for_bit(drawn, start, layout):
    sizes, interleaved = drawn
    where = start + torch.tensor([[0, 1, 2, 9], [4, 4, 5, 6]])
    rope, (q, k, _) = MRoPE(WIDTH, sizes, interleaved=interleaved, layout=layout), heads(4)
    plain = Rotary(WIDTH, layout=layout)
    assert torch.equal(rope.inv_freq, plain.inv_freq)
    for one, other in zip(rope(q, k, where.expand(3, -1, -1)), plain(q, k, where), strict=True):
        assert torch.equal(one, other)


@given(
    by=st.lists(st.integers(0, 10_000), min_size=3, max_size=3),
    drawn=sections(),
    order=st.sampled_from(AXIAL),
)
def test_scores_depend_on_the_differences_along_each_axis(by, drawn, order):
    (q, k, _), where = heads(9), positions.mrope([2, (2, 4, 4)])[:, :9]
    k, moved = k.repeat_interleave(2, dim=1), where + torch.tensor(by)[:, None]
    for rope in (MRoPE(WIDTH, drawn[0], interleaved=drawn[1]), Axial(WIDTH, 3, order=order)):
        here, there = (a @ b.mT for a, b in (rope(q, k, where), rope(q, k, moved)))
        torch.testing.assert_close(there, here, rtol=0, atol=2e-5)


@pytest.mark.parametrize("order", AXIAL)
@pytest.mark.parametrize("axes", [1, 2, 3, 4])
def test_axial_is_complex_multiplication_pair_by_pair(axes, order):
    """In float64, from the order's own words; features beyond the axes' share pass."""
    width, each = 26, 26 // axes // 2
    where = positions.grid(*(2,) * axes) * torch.tensor([3, 7, 11, 1])[:axes, None]
    pairs = {
        "blocks": [(a, s, each) for a in range(axes) for s in range(each)],
        "reversed": [(a, s, each) for a in reversed(range(axes)) for s in range(each)],
        "alternating": [(a, s, each) for s in range(each) for a in reversed(range(axes))],
        "pixtral": [(a, axes * s + a, axes * each) for a in range(axes) for s in range(each)],
    }[order]
    angles = torch.stack([where[a].double() * 100.0 ** (-s / of) for a, s, of in pairs], dim=-1)
    q, k, _ = heads(where.shape[1], width)
    for found, given_ in zip(Axial(width, axes, order=order, base=100.0)(q, k, where), (q, k), strict=True):
        torch.testing.assert_close(found.double(), rotate_complex(given_, angles), rtol=0, atol=1e-6)


SCALINGS = [Linear(factor=2.0), NTK(factor=3.0), YaRN(factor=4.0, original_length=16, attention_factor=1.0), None]


@given(drawn=st.lists(st.sampled_from(SCALINGS), min_size=2, max_size=2), order=st.sampled_from(AXIAL))
def test_each_axis_has_the_scaling_given_for_it(drawn, order):
    """An axis along which nothing else moves is `Rotary` on that axis's series with that scaling."""
    rope, each = Axial(WIDTH, order=order, scaling=drawn), WIDTH // 4
    for axis, scaling in enumerate(drawn):
        series = Rotary(WIDTH if order == "pixtral" else WIDTH // 2, scaling=scaling).inv_freq
        own = rope.inv_freq[torch.tensor(rope.axes) == axis]
        assert torch.equal(own, series[axis::2] if order == "pixtral" else series)
        assert len(own) == each


@given(order=st.sampled_from(AXIAL), both=st.booleans())
def test_factor_one_is_the_identity_and_one_scaling_is_everybodys(order, both):
    where = positions.grid(5, 3)
    one, plain = Linear(factor=1.0), Axial(WIDTH, order=order)
    assert torch.equal(
        tables_of(Axial(WIDTH, order=order, scaling=one if both else [one, None]), where), tables_of(plain, where)
    )
    scaled = Axial(WIDTH, order=order, scaling=NTK(factor=2.0))
    assert torch.equal(scaled.inv_freq, Axial(WIDTH, order=order, scaling=[NTK(factor=2.0)] * 2).inv_freq)


def test_a_resolution_is_squeezed_into_the_trained_one():
    """Twice the rows and one and a half times the columns: every second row, every third column turn as trained."""
    scaled, plain = Axial(WIDTH, scaling=[Linear(factor=2.0), Linear(factor=1.5)]), Axial(WIDTH)
    fine = positions.grid(8, 6).reshape(2, 8, 6)[:, ::2, ::3].flatten(1)
    found = tables_of(scaled, fine)
    torch.testing.assert_close(found, tables_of(plain, positions.grid(4, 2) * torch.tensor([[1], [2]])))


def test_a_temperature_of_all_axes():
    yarn = YaRN(factor=4.0, original_length=16)
    assert Axial(WIDTH, scaling=yarn).attention_factor == yarn.apply(Rotary(16).inv_freq, base=1e4).attention_factor > 1


def test_turned_first_and_attended_without_an_encoding():
    """With its gradients, against a dense softmax in float64."""
    (q, k, v), where = heads(12), positions.grid(3, 4)
    given_ = [x.requires_grad_() for x in (q, k, v)]
    out = attend(*Axial(WIDTH)(q, k, where), v, causal=False)
    angles = torch.cat([where[a].double()[:, None] * 1e4 ** (-torch.arange(8).double() / 8) for a in (0, 1)], -1)
    expected = attend_densely(rotate_complex(q, angles), rotate_complex(k, angles), v)
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=2e-6)
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(5))
    found, wanted = (torch.autograd.grad((y * weight).sum(), given_) for y in (out, expected))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


def test_fewer_pairs_than_the_head_has():
    rope, (q, k, _) = MRoPE(WIDTH, [3, 3, 2], rotary_dim=16, interleaved=True), heads(4)
    where = torch.tensor([3, 4, 5, 9])
    plain = Rotary(WIDTH, rotary_dim=16)(q, k, where)
    assert all(torch.equal(a, b) for a, b in zip(rope(q, k, where.expand(3, -1)), plain, strict=True))


@pytest.mark.parametrize(("build", "message"), [
    (lambda: MRoPE(128, [16, 24, 20]), r"sections=\[16, 24, 20\] does not split 64 pairs"),
    (lambda: MRoPE(128, [32, 32]), "does not split 64 pairs"),
    (lambda: MRoPE(128, [16, 24, -24]), "sections=-24"),
    (lambda: MRoPE(16, [4, 2, 2])(torch.ones(1, 1, 2, 16), torch.ones(1, 1, 2, 16)), "give 3 rows, one an axis"),
    (lambda: Axial(64, 0), "axes=0"),
    (lambda: Axial(4, 3), "head_dim=4 has no pair for each of 3 axes; give 6 or more"),
    (lambda: Axial(64, order="rows"), "order='rows'"),
    (lambda: Axial(64, scaling=[Linear(factor=2.0)]), "one for each of 2 axes"),
    (lambda: Axial(64, scaling="linear"), "scaling='linear'"),
    (lambda: Axial(64, scaling=DynamicNTK(factor=2.0, original_length=16)), "depends on a length"),
    (lambda: Axial(64, scaling=[YaRN(factor=4.0, original_length=16), None]), "logits have one temperature"),
])  # fmt: skip
def test_bad_input(build, message):
    with pytest.raises(RopewalkError, match=message):
        build()
