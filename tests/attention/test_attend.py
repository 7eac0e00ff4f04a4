"""attend against attention written out in float64, forward and gradient, over every option at once."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ropewalk import ALiBi, CoPE, Encoding, NoPE, Rotary, Shaw, T5Bias, TransformerXL, attend
from ropewalk.testing import attend_densely, rotate_complex

HEADS, WIDTH, REACH = 4, 8, 3


def sample(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def t5_bucket_by_hand(relative: int, buckets: int = 32, furthest: int = 128) -> int:
    """Raffel et al. 2019, section 2.1, one-sided."""
    distance, own = max(-relative, 0), buckets // 2
    if distance < own:
        return distance
    return min(buckets - 1, own + int(math.log(distance / own) / math.log(furthest / own) * (buckets - own)))


def written_out(encoding: Encoding, q, k, where_q: list[list[int]], where_k: list[list[int]], seen=None) -> dict:
    """q and k, the bias and the offsets, a pair of positions at a time; no code of the encoding's runs."""
    pairs = [[[(i, j) for j in js] for i in is_] for is_, js in zip(where_q, where_k, strict=True)]
    if isinstance(encoding, Rotary):
        frequencies = 10_000.0 ** (-torch.arange(0, WIDTH, 2).double() / WIDTH)
        turn = lambda x, where: rotate_complex(x, torch.tensor(where).double()[:, None, :, None] * frequencies)  # noqa: E731
        return {"q": turn(q, where_q), "k": turn(k, where_k)}
    if isinstance(encoding, ALiBi):
        slopes = torch.tensor([1 / 4, 1 / 16, 1 / 64, 1 / 256]).double()
        distance = torch.tensor([[[abs(i - j) for i, j in row] for row in rows] for rows in pairs])
        return {"q": q, "k": k, "bias": -slopes[:, None, None] * distance[:, None]}
    if isinstance(encoding, T5Bias):
        bucket = torch.tensor([[[t5_bucket_by_hand(j - i) for i, j in row] for row in rows] for rows in pairs])
        return {"q": q, "k": k, "bias": encoding.weight[bucket].movedim(-1, 1)}
    if isinstance(encoding, Shaw):
        (rows,) = pairs
        index = torch.tensor([[min(max(j - i, -REACH), REACH) + REACH for i, j in row] for row in rows])
        return {"q": q, "k": k, "key_offsets": encoding.keys[index], "value_offsets": encoding.values[index]}
    if isinstance(encoding, TransformerXL):
        (rows,) = pairs
        distance = torch.tensor([[i - j for i, j in row] for row in rows]).double()
        angles = distance[..., None] * 10_000.0 ** (-torch.arange(0, 6, 2).double() / 6)
        weight = encoding.weight.unflatten(0, (HEADS, WIDTH))
        by_distance = torch.einsum("hdc,ijc->hijd", weight, torch.cat((angles.sin(), angles.cos()), dim=-1))
        by_content = torch.einsum("hd,bhjd->bhj", encoding.content_bias, one_head_each(k))[:, :, None]
        shifted = q + encoding.distance_bias[:, None]
        return {"q": q, "k": k, "relation": by_content + torch.einsum("bhid,hijd->bhij", shifted, by_distance)}
    if isinstance(encoding, CoPE):
        (is_,), (js,) = where_q, where_k
        between = torch.tensor([[[j <= t <= i for t in js] for j in js] for i in is_]) & seen[:, None]
        gates = torch.sigmoid(torch.einsum("bhid,bhtd->bhit", q, one_head_each(k)) / math.sqrt(WIDTH))
        counted = torch.einsum("bhit,ijt->bhij", gates, between.double()).clamp(max=REACH)
        tents = (1 - (counted[..., None] - torch.arange(REACH + 1)).abs()).clamp(
            min=0
        )  # interpolation, vector by vector
        relation = math.sqrt(WIDTH) * torch.einsum("bhijn,nd,bhid->bhij", tents, encoding.weight, q)
        return {"q": q, "k": k, "relation": relation}
    return {"q": q, "k": k}


def one_head_each(k: torch.Tensor) -> torch.Tensor:
    return k.repeat_interleave(HEADS // k.shape[1], dim=1)


def encodings() -> list[Encoding]:
    torch.manual_seed(1)
    built = [NoPE(), Rotary(WIDTH), ALiBi(HEADS), T5Bias(HEADS), Shaw(WIDTH, REACH)]
    built += [TransformerXL(WIDTH, HEADS, dim=6), CoPE(WIDTH, REACH + 1)]
    for parameter in (p for encoding in built for p in encoding.parameters()):
        torch.nn.init.normal_(parameter)
    return [encoding.double() for encoding in built]


@st.composite
def calls(draw):
    """Where queries and keys stand, in any order, and who is hidden from whom."""
    keys = draw(st.integers(1, 9))
    queries = draw(st.integers(1, keys))
    where_k = draw(st.permutations(range(keys)))
    stretch, offset = draw(st.sampled_from([1, 1, 50])), draw(st.sampled_from([0, 7, 3000]))
    where_k = [stretch * p + offset for p in where_k]
    where_q = draw(st.lists(st.sampled_from(where_k), min_size=queries, max_size=queries))
    options = {
        "causal": draw(st.booleans()),
        "window": draw(st.sampled_from([None, 1, 3, 100])),
        "softcap": draw(st.sampled_from([None, 2.0])),
    }
    real = draw(st.sampled_from([None, draw(st.lists(st.booleans(), min_size=keys, max_size=keys))]))
    documents = draw(st.sampled_from([None, draw(st.lists(st.integers(0, 1), min_size=keys, max_size=keys))]))
    return where_q, where_k, options, real, documents, draw(st.booleans()), draw(st.sampled_from([1, 2, 4]))


def seen_by_hand(where_q, where_k, options, real, documents) -> torch.Tensor:
    def sees(i: int, j: int) -> bool:
        ahead, window = where_k[j] - where_q[i], options["window"]
        near = window is None or (-ahead < window if options["causal"] else abs(ahead) < window)
        own = documents is None or documents[j] == documents[len(where_k) - len(where_q) + i]
        return near and own and not (options["causal"] and ahead > 0) and (real is None or real[j])

    return torch.tensor([[sees(i, j) for j in range(len(where_k))] for i in range(len(where_q))])


@pytest.mark.parametrize("encoding", encodings(), ids=lambda e: type(e).__name__)
@given(call=calls())
def test_equals_attention_written_out(encoding, call):
    where_q, where_k, options, real, documents, with_sinks, kv_heads = call
    q, k = sample(1, HEADS, len(where_q), WIDTH), sample(1, kv_heads, len(where_k), WIDTH, seed=1)
    v, sinks = sample(1, kv_heads, len(where_k), WIDTH, seed=2), sample(HEADS, seed=3) if with_sinks else None
    learned = [t.requires_grad_() for t in (q, k, v, *encoding.parameters())]
    learned += [sinks.requires_grad_()] if with_sinks else []
    seen = seen_by_hand(where_q, where_k, options, real, documents)
    parts = written_out(encoding, q, k, [where_q], [where_k], seen)
    theirs = attend_densely(
        parts.pop("q"), parts.pop("k"), v, visible=seen, softcap=options["softcap"], sinks=sinks, **parts
    )
    ours = attend(
        q, k, v, encoding=encoding, sinks=sinks, backend="reference", **options,
        q_positions=torch.tensor(where_q), k_positions=torch.tensor(where_k),
        key_mask=None if real is None else torch.tensor([real]),
        documents=None if documents is None else torch.tensor(documents),
    )  # fmt: skip
    upstream = sample(*ours.shape, seed=4)
    tables = 2e-6  # rotary tables are float32
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tables)
    gradients = [
        torch.autograd.grad(y, learned, upstream, allow_unused=True, materialize_grads=True) for y in (ours, theirs)
    ]
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=20 * tables)


@pytest.mark.parametrize(
    "encoding", [e for e in encodings() if "relation" not in e.doors], ids=lambda e: type(e).__name__
)
@given(call=calls())
def test_the_fused_kernels_equal_the_reference(encoding, call):
    where_q, where_k, options, real, documents, _, kv_heads = call
    options["softcap"] = None
    encoding.float()
    q, k = sample(1, HEADS, len(where_q), WIDTH).float(), sample(1, kv_heads, len(where_k), WIDTH, seed=1).float()
    v, upstream = sample(1, kv_heads, len(where_k), WIDTH, seed=2).float(), sample(*q.shape, seed=4).float()
    learned = [t.requires_grad_() for t in (q, k, v, *encoding.parameters())]
    place = {
        "q_positions": torch.tensor(where_q), "k_positions": torch.tensor(where_k),
        "key_mask": None if real is None else torch.tensor([real]),
        "documents": None if documents is None else torch.tensor(documents),
    }  # fmt: skip
    fused, plain = (
        attend(q, k, v, encoding=encoding, backend=backend, **options, **place) for backend in ("sdpa", "reference")
    )
    torch.testing.assert_close(fused, plain, rtol=2e-5, atol=2e-5)
    for a, b in zip(*(torch.autograd.grad(y, learned, upstream) for y in (fused, plain)), strict=True):
        torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-5)


def test_rows_have_positions_of_their_own():
    """[B, T] positions: each row as if alone."""
    q, k = sample(2, HEADS, 5, WIDTH), sample(2, 2, 5, WIDTH, seed=1)
    where = torch.tensor([[0, 1, 2, 3, 4], [9, 7, 30, 8, 2]])
    for encoding in encodings():
        both = attend(q, k, k, causal=True, encoding=encoding, q_positions=where)
        for row in range(2):
            part = q[row : row + 1], k[row : row + 1], k[row : row + 1]
            alone = attend(*part, causal=True, encoding=encoding, q_positions=where[row])
            torch.testing.assert_close(both[row : row + 1], alone, rtol=0, atol=1e-12)


def test_left_out_positions_are_those_of_a_cache():
    q, k = sample(1, HEADS, 7, WIDTH), sample(1, 2, 7, WIDTH, seed=1)
    for encoding in encodings():
        full = attend(q, k, k, causal=True, encoding=encoding, q_positions=torch.arange(7))
        for queries in (1, 3, 7):
            torch.testing.assert_close(
                attend(q[:, :, 7 - queries :], k, k, causal=True, encoding=encoding), full[:, :, 7 - queries :],
                rtol=0, atol=1e-12,
            )  # fmt: skip


def test_dropout_drops_weights_and_keeps_their_mean():
    torch.manual_seed(0)
    q, v = torch.zeros(1, 1, 2000, 8), torch.ones(1, 1, 64, 1)
    out = attend(q, torch.zeros(1, 1, 64, 8), v, causal=False, q_positions=torch.zeros(2000).long(),
                 k_positions=torch.zeros(64).long(), dropout_p=0.25, backend="reference")  # fmt: skip
    assert out.std() > 0.05
    assert out.mean().item() == pytest.approx(1.0, abs=0.01)
