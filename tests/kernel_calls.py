"""Calls of `kernels.rotate`, of every shape, stride and option."""

import torch
from hypothesis import strategies as st

AXES = {"bhtd": (0, 1, 2, 3), "bthd": (0, 2, 1, 3), "thd": (2, 1, 3)}


def tables(tokens, pairs, rows=None, seed=0):
    """Any numbers: a rotation by them is linear, so that a swapped or forgotten one shows."""
    random = torch.Generator().manual_seed(seed)
    shape = (tokens, pairs) if rows is None else (rows, tokens, pairs)
    return torch.randn(shape, generator=random), torch.randn(shape, generator=random)


@st.composite
def strided(draw, shape, dtype):
    """A tensor of that shape with any strides: permuted, every n-th element of a larger one, expanded."""
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from((1, 1, 2))) for _ in shape]
    expanded = draw(st.sampled_from((None, None, *range(len(shape)))))
    lengths = [1 if n == expanded else size for n, size in enumerate(shape)]
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    scale = draw(st.sampled_from((1.0, 1e-6, 3e4)))
    base = torch.randn([lengths[n] * steps[n] for n in order], generator=random, dtype=torch.float64) * scale
    view = base.to(dtype).permute([order.index(n) for n in range(len(shape))])
    return view[tuple(slice(None, None, step) for step in steps)].expand(shape)


@st.composite
def calls(draw, dtypes):
    """q, k, tables, tables of k or None, and options."""
    axes, dtype = draw(st.sampled_from(tuple(AXES))), draw(st.sampled_from(dtypes))
    batch, tokens = draw(st.integers(1, 3)), draw(st.integers(0, 9))
    pairs, before, after = draw(st.sampled_from((1, 3, 8, 32, 64))), draw(st.integers(0, 3)), draw(st.integers(0, 3))
    own = draw(st.booleans())
    k_tokens = draw(st.integers(0, 9)) if own else tokens
    shapes = [(batch, draw(st.integers(1, 3)), length, before + 2 * pairs + after) for length in (tokens, k_tokens)]
    q, k = (draw(strided(tuple(shape[n] for n in AXES[axes]), dtype)) for shape in shapes)
    rows = draw(st.sampled_from((None, 1, batch))) if axes != "thd" else None
    size = [(length, pairs) if rows is None else (rows, length, pairs) for length in (tokens, k_tokens)]
    given_tables = [tuple(draw(strided(one, torch.float32)) for _ in range(2)) for one in size]
    options = {"layout": draw(st.sampled_from(("half", "interleaved"))), "axes": axes, "first": before}
    return q, k, given_tables[0], given_tables[1] if own else None, options
