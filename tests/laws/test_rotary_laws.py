"""What rotary must satisfy whatever its parameters."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import bases, layouts, length_dependent_scalings, scalings, scalings_by_row

from ropewalk import Rotary, positions
from ropewalk.functional import apply_rotary, cos_sin, inv_freq
from ropewalk.testing import rotate_complex, rotation_matrix

HEAD = 64


def sample(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@given(layout=layouts, base=bases, rotary_dim=st.sampled_from([2, 16, 30, 64]), offset=st.integers(0, 16_000_000))
def test_equals_complex_multiplication_and_the_matrix(layout, base, rotary_dim, offset):
    rope = Rotary(HEAD, base=base, rotary_dim=rotary_dim, layout=layout)
    where, q, k = positions.arange(5, offset), sample(2, 3, 5, HEAD), sample(2, 1, 5, HEAD, seed=1)
    angles = where.double()[:, None] * inv_freq(rotary_dim, base)
    matrices = torch.stack([rotation_matrix(row, HEAD, layout=layout) for row in angles])
    for given_, turned in zip((q, k), rope(q, k, where), strict=True):
        assert turned.dtype == torch.float32
        torch.testing.assert_close(turned.double(), rotate_complex(given_, angles, layout=layout), rtol=0, atol=2e-6)
        explicit = torch.einsum("tij,bhtj->bhti", matrices, given_.double())
        torch.testing.assert_close(turned.double(), explicit, rtol=0, atol=2e-6)


@given(layout=layouts, base=bases)
def test_gradient_is_the_inverse_rotation(layout, base):
    rope, where = Rotary(HEAD, base=base, layout=layout), positions.arange(7, 1000)
    q = sample(1, 2, 7, HEAD, dtype=torch.float64).requires_grad_()
    upstream = sample(1, 2, 7, HEAD, seed=3, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(rope(q, q, where)[0], q, upstream)
    angles = where.double()[:, None] * inv_freq(HEAD, base)
    torch.testing.assert_close(gradient, rotate_complex(upstream, -angles, layout=layout), rtol=0, atol=1e-6)


def test_gradcheck():
    cos, sin = (table.double() for table in cos_sin(positions.arange(3), inv_freq(8, 100.0)))
    for layout in ("half", "interleaved"):
        x = sample(1, 2, 3, 10, dtype=torch.float64).requires_grad_()
        assert torch.autograd.gradcheck(lambda x, layout=layout: apply_rotary(x, cos, sin, layout=layout), (x,))


@given(shift=st.integers(0, 100_000), base=bases, layout=layouts)
def test_scores_depend_on_the_distance_alone(shift, base, layout):
    rope = Rotary(HEAD, base=base, layout=layout)
    q, k = sample(1, 1, 6, HEAD, dtype=torch.float64), sample(1, 1, 6, HEAD, seed=1, dtype=torch.float64)

    def scores(offset: int) -> torch.Tensor:
        turned_q, turned_k = rope(q, k, positions.arange(6, offset))
        return turned_q @ turned_k.mT

    torch.testing.assert_close(scores(shift), scores(0), rtol=0, atol=2e-5)


@given(offset=st.integers(0, 16_000_000), layout=layouts)
def test_keeps_the_norm(offset, layout):
    q = sample(1, 2, 4, HEAD)
    turned, _ = Rotary(HEAD, layout=layout)(q, q, positions.arange(4, offset))
    torch.testing.assert_close(turned.norm(dim=-1), q.norm(dim=-1), rtol=1e-6, atol=0)


@given(offset=st.integers(0, 10_000))
def test_layouts_are_a_permutation_of_each_other(offset):
    q, where = sample(1, 2, 4, HEAD), positions.arange(4, offset)
    order = torch.arange(HEAD).reshape(2, -1).T.flatten()  # half -> interleaved
    half, _ = Rotary(HEAD, layout="half")(q, q, where)
    interleaved, _ = Rotary(HEAD, layout="interleaved")(q[..., order], q[..., order], where)
    assert torch.equal(half[..., order], interleaved)


@given(scaling=scalings, cuts=st.lists(st.integers(1, 11), max_size=4), offset=st.integers(0, 5000))
def test_prefill_equals_any_chunking_with_a_cache(scaling, cuts, offset):
    """Who decodes passes the final length; then how the tokens arrive does not matter."""
    rope, total = Rotary(HEAD, scaling=scaling), 12
    q, k, where = sample(2, 2, total, HEAD), sample(2, 1, total, HEAD, seed=1), positions.arange(total, offset)
    whole = rope(q, k, where, length=offset + total)
    borders = [0, *sorted(set(cuts)), total]
    for start, end in itertools.pairwise(borders):
        rows = slice(start, end)
        part = rope(q[:, :, rows], k[:, :, rows], where[rows], length=offset + total)
        assert all(torch.equal(w[:, :, rows], p) for w, p in zip(whole, part, strict=True))


@given(scaling=scalings_by_row, other=st.integers(1, 300_000))
def test_a_row_does_not_see_its_neighbour(scaling, other):
    rope, q = Rotary(HEAD, scaling=scaling), sample(2, 2, 4, HEAD)
    alone, _ = rope(q[:1], q[:1], positions.arange(4)[None])
    beside, _ = rope(q, q, torch.stack([positions.arange(4), positions.arange(4, other)]))
    assert torch.equal(alone, beside[:1])


@given(scaling=length_dependent_scalings)
def test_queries_and_keys_of_one_sequence_share_its_length(scaling):
    rope, length = Rotary(HEAD, scaling=scaling), 3 * scaling.original_length
    q, k = sample(1, 1, 1, HEAD), sample(1, 1, 4, HEAD, seed=1)
    ends = torch.tensor([0, 1, length - 2, length - 1])
    turned = rope(q, k, q_positions=ends[-1:], k_positions=ends)
    tables = rope.tables(ends[:-1], length)
    assert torch.equal(turned[1][:, :, :-1], apply_rotary(k[:, :, :-1], *tables))


@given(scaling=scalings, position=st.integers(0, 16_000_000))
def test_tables_are_exact_to_float32_rounding_far_out(scaling, position):
    rope = Rotary(HEAD, scaling=scaling)
    cos, sin = rope.tables(torch.tensor([position]))
    inv_freq_, factor = scaling.apply(inv_freq(HEAD, 10_000.0), base=10_000.0, length=position + 1)
    angles = position * inv_freq_
    assert cos.dtype == sin.dtype == torch.float32
    torch.testing.assert_close(cos[0].double(), angles.cos() * factor, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(sin[0].double(), angles.sin() * factor, rtol=1e-7, atol=1e-9)


def test_float32_throughout_is_not_exact_there():
    far = torch.tensor([16_000_000])
    exact, rounded = Rotary(HEAD).tables(far)[0], Rotary(HEAD, numerics="float32").tables(far)[0]
    assert (exact - rounded).abs().max() > 0.1


@pytest.mark.parametrize("cast", ["bfloat16", "half", "default dtype", "autocast"])
def test_tables_stay_float32_and_exact(cast):
    where, plain = positions.arange(8, 1_000_000), Rotary(HEAD).tables(positions.arange(8, 1_000_000))
    rope = Rotary(HEAD)
    if cast == "default dtype":
        torch.set_default_dtype(torch.bfloat16)
        try:
            tables = Rotary(HEAD).tables(where)
        finally:
            torch.set_default_dtype(torch.float32)
    elif cast == "autocast":
        with torch.autocast("cpu", torch.bfloat16):
            tables = rope.tables(where)
    else:
        tables = (rope.half() if cast == "half" else rope.to(torch.bfloat16)).tables(where)
    assert all(torch.equal(a, b) and b.dtype == torch.float32 for a, b in zip(plain, tables, strict=True))


@given(scaling=scalings)
def test_survives_the_meta_device_and_leaves_no_trace_in_the_state_dict(scaling):
    with torch.device("meta"):
        rope = Rotary(HEAD, scaling=scaling)
    rope.to_empty(device="cpu")
    assert not rope.state_dict()
    plain = Rotary(HEAD, scaling=scaling).tables(positions.arange(4, 100))
    assert all(torch.equal(a, b) for a, b in zip(plain, rope.tables(positions.arange(4, 100)), strict=True))


@given(dtype=st.sampled_from([torch.bfloat16, torch.float16]))
def test_low_precision_rounds_once(dtype):
    q = sample(1, 2, 16, HEAD, dtype=dtype)
    where = positions.arange(16, 50_000)
    turned, _ = Rotary(HEAD)(q, q, where)
    exact, _ = Rotary(HEAD)(q.float(), q.float(), where)
    assert turned.dtype == dtype
    assert torch.equal(turned, exact.to(dtype))


def test_the_meta_device_gives_shapes():
    q = torch.zeros(1, 2, 4, HEAD, device="meta")
    turned, _ = Rotary(HEAD)(q, q)
    assert turned.is_meta
    assert turned.shape == q.shape


def test_a_call_remembers_nothing():
    rope, q = Rotary(HEAD), sample(1, 1, 4, HEAD)
    before = rope(q, q)
    rope(sample(1, 1, 4000, HEAD), sample(1, 1, 4000, HEAD), positions.arange(4000, 1_000_000))
    assert all(torch.equal(a, b) for a, b in zip(before, rope(q, q), strict=True))
