"""Two maps of positions in one attention, held to a matrix of distances written out pair by pair."""

import math

import pytest
import torch
from every_encoding import sample
from hypothesis import given
from hypothesis import strategies as st

from ropewalk import DualChunk, DynamicNTK, MRoPE, RopewalkError, Rotary, SelfExtend, YaRN, attend, positions
from ropewalk.attention import flash

WIDTH, ROPE = 16, Rotary(16)
BOTH = SelfExtend(ROPE, group=4, window=10), DualChunk(ROPE, chunk_size=12, local_size=5)


def self_extend(i: int, j: int, group: int, window: int) -> int:
    return i - j if i - j < window else i // group + window - window // group - j // group


def dual_chunk(i: int, j: int, chunk_size: int, local_size: int) -> int:
    """As the paper tells it: within a chunk, to the one before it, to those before that."""
    step = chunk_size - local_size
    if i // step == j // step or j > i:
        return i - j
    if i // step == j // step + 1:
        return min(i % step + step, chunk_size) - j % step
    return chunk_size - j % step


def written_out(rope, distance, q_at, k_at):
    """Scores of unrotated q [B, H, T, D], k [B, H, S, D] at distance(i, j), a rotation for each pair: float64."""
    rates = rope.inv_freq.double()
    apart = torch.tensor([[distance(i, j) for j in k_at.tolist()] for i in q_at.tolist()]).double()
    cos, sin = ((apart[..., None] * rates).apply_(wave) for wave in (math.cos, math.sin))

    def score(q, k):
        (q1, q2), (k1, k2) = q.double().chunk(2, -1), k.double().chunk(2, -1)
        real = q1[..., :, None, :] * k1[..., None, :, :] + q2[..., :, None, :] * k2[..., None, :, :]
        crossed = q1[..., :, None, :] * k2[..., None, :, :] - q2[..., :, None, :] * k1[..., None, :, :]
        return (real * cos + crossed * sin).sum(-1) * rope.attention_factor**2

    return score


KINDS = {
    "self-extend": (SelfExtend, self_extend, {"group": 4, "window": 10}),
    "rerope": (SelfExtend, self_extend, {"group": 10**9, "window": 6}),
    "groups that do not divide the window": (SelfExtend, self_extend, {"group": 7, "window": 9}),
    "dual chunk": (DualChunk, dual_chunk, {"chunk_size": 12, "local_size": 5}),
    "chunks with nothing local": (DualChunk, dual_chunk, {"chunk_size": 9, "local_size": 0}),
}


@pytest.mark.parametrize("rope", [ROPE, Rotary(WIDTH, scaling=YaRN(4.0, 16))], ids=["plain", "yarn"])
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("queries", [60, 7])
def test_distances_are_those_that_are_written(name, rope, queries):
    """Forward and gradient, on every path."""
    kind, distance, options = KINDS[name]
    q, k, v = (sample(2, 2, n, WIDTH, seed=n + 1, dtype=torch.float64).requires_grad_() for n in (queries, 60, 60))
    where, upstream = torch.arange(60), sample(2, 2, queries, WIDTH, seed=9, dtype=torch.float64)
    score = written_out(rope, lambda i, j: distance(i, j, **options), where[60 - queries :], where)(q, k)
    visible = where[60 - queries :, None] >= where
    weights = (score / WIDTH**0.5).masked_fill(~visible, -math.inf).softmax(-1)
    expected = (weights @ v, *torch.autograd.grad(weights @ v, [q, k, v], upstream))
    for call in ({}, {"backend": "reference"}, {"key_mask": torch.ones(2, 60, dtype=torch.bool)}):
        out = attend(q, k, v, causal=True, encoding=kind(rope, **options), **call)
        for mine, theirs in zip((out, *torch.autograd.grad(out, [q, k, v], upstream)), expected, strict=True):
            torch.testing.assert_close(mine, theirs, atol=2e-6, rtol=2e-6)  # tables are float32


SAME = {
    "a group of one": SelfExtend(ROPE, group=1, window=5),
    "a text within the window": SelfExtend(ROPE, group=8, window=60),
    "a text within a chunk": DualChunk(ROPE, chunk_size=66, local_size=6),
}


@pytest.mark.parametrize("name", SAME)
def test_what_is_not_far_is_the_rotation_itself(name):
    q, k, v = (sample(1, 2, 60, WIDTH, seed=n) for n in range(3))
    expected = attend(q, k, v, causal=True, encoding=ROPE)
    torch.testing.assert_close(attend(q, k, v, causal=True, encoding=SAME[name]), expected, atol=2e-6, rtol=2e-6)


@given(
    st.integers(1, 40),
    st.integers(0, 19),
    st.integers(1, 12),
    st.integers(1, 30),
    st.lists(st.integers(0, 90), min_size=1),
)
def test_no_pair_is_farther_than_is_promised(chunk, local, group, window, places):
    """Near pairs stand where they stand, and far ones within the length that each is made for."""
    where = torch.tensor(sorted(places))
    local = min(local, (chunk - 1) // 2)
    for encoding, near, most in (
        (SelfExtend(ROPE, group=group, window=window), window - 1, window + 90 // group + 1),
        (DualChunk(ROPE, chunk_size=chunk, local_size=local), local, chunk),
    ):
        q_moved, k_moved = encoding.moved(where, where)
        apart = where[:, None] - where
        seen = torch.where(encoding.near(where, where), apart, q_moved[:, None] - k_moved)
        past = apart >= 0
        assert (seen[past] >= 0).all()
        assert (seen[past] <= most).all()
        assert torch.equal(seen[apart <= near], apart[apart <= near])


@pytest.mark.parametrize("encoding", BOTH)
def test_far_from_the_beginning(encoding):
    """At 16 million, a whole number of groups and chunks on, pairs are seen as at 0, in float32."""
    q, k, v = (sample(1, 2, 60, WIDTH, seed=n) for n in range(3))
    there = positions.arange(60, 16_000_000 - 16_000_000 % 28)
    here = attend(q, k, v, causal=True, encoding=encoding)
    found = attend(q, k, v, causal=True, encoding=encoding, q_positions=there, k_positions=there)
    torch.testing.assert_close(found, here, atol=2e-5, rtol=2e-5)


def test_far_and_near_are_each_computed_once(monkeypatch):
    """What the kernel reads of a long text is its triangle, and the blocks through which the border runs."""
    read, run = [], flash.forward
    monkeypatch.setattr(flash, "forward", lambda q, k, *rest: read.append(q.shape[2] * k.shape[2]) or run(q, k, *rest))
    q = k = v = sample(1, 1, 2000, WIDTH)
    for encoding in (SelfExtend(ROPE, group=8, window=500), DualChunk(ROPE, chunk_size=500, local_size=80)):
        read.clear()
        attend(q, k, v, causal=True, encoding=encoding)
        assert 2000 * 2000 / 2 <= sum(read) <= 1.3 * 2000 * 2000 / 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_in_low_precision_it_errs_as_the_rotation_does(dtype):
    q, k, v = (sample(1, 2, 300, WIDTH, seed=n).to(dtype) for n in range(3))
    errors = []
    for encoding in (SelfExtend(ROPE, group=4, window=50), ROPE):
        exact = attend(q.double(), k.double(), v.double(), causal=True, encoding=encoding, backend="reference")
        errors.append((attend(q, k, v, causal=True, encoding=encoding).double() - exact).abs().max())
    assert errors[0] <= 3 * errors[1]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: SelfExtend(ROPE, group=0, window=4), "SelfExtend: group=0"),
        (lambda: SelfExtend(ROPE, group=4, window=0), "SelfExtend: window=0"),
        (lambda: SelfExtend(torch.nn.Identity(), group=4, window=4), "no rotary encoding of one"),
        (lambda: SelfExtend(MRoPE(WIDTH, sections=(2, 3, 3)), group=4, window=4), "no rotary encoding of one"),
        (lambda: SelfExtend(Rotary(WIDTH, scaling=DynamicNTK(2.0, 16)), group=4, window=4), "depend on the length"),
        (lambda: DualChunk(ROPE, chunk_size=8, local_size=4), "local_size=4 of chunk_size=8"),
        (lambda: DualChunk(ROPE, chunk_size=0, local_size=0), "chunk_size=0"),
        (lambda: DualChunk(ROPE, chunk_size=8, local_size=-1), "local_size=-1"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(make, told):
    with pytest.raises(RopewalkError, match=told):
        make()
