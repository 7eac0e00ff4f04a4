"""Transformer-XL's relation: XLNet's attention, and the shift of the original's tables."""

import math

import pytest
import torch
import transformers as hf
from external_peers import LEFT_PADDED, TOKENS, assert_same, joined, overhear, randomized, sample
from torch import Tensor

from ropewalk import TransformerXL, attend, positions

HEADS, WIDTH, DIM = 3, 16, 48
DOUBLE = {"rtol": 0, "atol": 1e-12}


def xlnet(kind: str) -> hf.XLNetModel:
    return randomized(hf.XLNetModel(hf.XLNetConfig(
        vocab_size=40, d_model=DIM, n_layer=2, n_head=HEADS, d_inner=16, attn_type=kind, mem_len=64
    )))  # fmt: skip


def ours(module, x: Tensor, before: Tensor | None = None, **how: object) -> Tensor:
    """XLNet's x is [T, B, C], and so is what stands before it."""
    every = x if before is None else torch.cat((before, x))
    q, k, v = (
        torch.einsum("tbc,chd->bhtd", given, weight)
        for given, weight in ((x, module.q), (every, module.k), (every, module.v))
    )
    encoding = TransformerXL(WIDTH, HEADS, DIM)
    learned = {
        "content_bias": module.r_w_bias, "distance_bias": module.r_r_bias, "weight": module.r.flatten(1).T
    }  # fmt: skip
    for name, theirs in learned.items():  # theirs themselves, so that gradients can be told
        delattr(encoding, name)
        setattr(encoding, name, theirs)
    out = attend(q, k, v, encoding=encoding, **how)
    return module.post_attention(x, out.permute(2, 0, 1, 3))


@pytest.mark.parametrize("kind", ["uni", "bi"])
def test_xlnet(kind):
    """The future at negative distances, in a batch padded on its left, for which its causal model takes no mask."""
    ids = torch.arange(2 * TOKENS).reshape(2, TOKENS) % 40
    real = LEFT_PADDED if kind == "bi" else torch.ones_like(LEFT_PADDED)
    mask = {"attention_mask": real.float()} if kind == "bi" else {}
    for heard in overhear(xlnet(kind), "XLNetRelativeAttention", input_ids=ids, **mask):
        module = heard.module
        found = ours(module, heard.x, causal=kind == "uni", key_mask=real)
        inputs = [heard.x, module.q, module.k, module.v, module.r, module.r_w_bias, module.r_r_bias]
        assert_same(found.transpose(0, 1), heard.out.transpose(0, 1), inputs, real=real)


def test_xlnet_with_a_memory():
    """Keys that stand before the first query, as in the recurrence of Transformer-XL."""
    model, x, before = xlnet("uni"), sample(7, 2, DIM), sample(TOKENS, 2, DIM, seed=2)
    module = model.layer[0].rel_attn
    table = model.relative_positional_encoding(7, TOKENS + 7, bsz=2)
    hidden = torch.ones(7, TOKENS + 7).triu(TOKENS + 1)[:, :, None, None]
    theirs, _ = module(x, None, hidden, None, table, None, mems=before)
    inputs = [x, before, module.q, module.k, module.r, module.r_w_bias, module.r_r_bias]
    assert_same(ours(module, x, before, causal=True).transpose(0, 1), theirs.transpose(0, 1), inputs)


def shifted(by_distance: Tensor) -> Tensor:
    """[.., T, S] of distances S-1 .. 0 -> of keys: a column before them, read as S + 1 rows of T, less the first.

    The published trick of Transformer-XL's `_rel_shift`. Right for keys up to the query; the others hold what falls
    there, and have to be hidden.
    """
    queries, keys = by_distance.shape[-2:]
    padded = torch.nn.functional.pad(by_distance, (1, 0))
    return (
        padded.unflatten(-1, (keys + 1,))
        .flatten(-2)
        .unflatten(-1, (keys + 1, queries))[..., 1:, :]
        .reshape(by_distance.shape)
    )


@pytest.mark.parametrize("memory", [0, 9])
def test_the_shift_of_the_original(memory):
    """With keys of a segment before, and a width of r other than heads x head_dim."""
    encoding, width = randomized(TransformerXL(WIDTH, HEADS, 10)).double(), 10
    q, k, v = (sample(2, HEADS, n, WIDTH, seed=n + 1).double() for n in (12, 12 + memory, 12 + memory))
    k, v = k.detach().requires_grad_(), v.detach()
    distance = torch.arange(11 + memory, -1, -1).double()
    angles = distance[:, None] / 10_000 ** (torch.arange(0, width, 2).double() / width)
    table = torch.cat((angles.sin(), angles.cos()), dim=-1) @ encoding.weight.T
    r = table.unflatten(-1, (HEADS, WIDTH)).transpose(0, 1)
    content = torch.einsum("bhtd,bhsd->bhts", q + encoding.content_bias[:, None], k)
    place = shifted(torch.einsum("bhtd,hsd->bhts", q + encoding.distance_bias[:, None], r))
    hidden = torch.ones(12, 12 + memory).triu(memory + 1).bool()
    theirs = ((content + place) / math.sqrt(WIDTH)).masked_fill(hidden, -math.inf).softmax(-1) @ v
    found = attend(q, k, v, causal=True, encoding=encoding)
    assert_same(joined(found), joined(theirs), [k, *encoding.parameters()], tolerance=1e-12)


def test_the_table_of_distances_is_exact_at_16_million():
    """Near keys and a key at 0, seen from there: against sines of the distance, each taken by itself."""
    encoding = randomized(TransformerXL(WIDTH, HEADS, 10)).double()
    keys = torch.tensor([16_000_000, 15_999_999, 15_000_001, 7, 0])
    q, k = (sample(1, HEADS, n, WIDTH, seed=n).double().detach() for n in (1, 5))
    rates = [10_000 ** (-i / 10) for i in range(0, 10, 2)]
    rows = [[wave(int(16_000_000 - j) * rate) for wave in (math.sin, math.cos) for rate in rates] for j in keys]
    r = torch.einsum("hdc,sc->hsd", encoding.weight.unflatten(0, (HEADS, WIDTH)), torch.tensor(rows).double())
    want = torch.einsum("hd,bhsd->bhs", encoding.content_bias, k)
    want = want + torch.einsum("bhd,hsd->bhs", q[:, :, 0] + encoding.distance_bias, r)
    found = encoding.relation(q, k, torch.tensor([16_000_000]), keys)[:, :, 0]
    torch.testing.assert_close(found, want, rtol=0, atol=1e-6)  # float64 has 2e-9 radians there
    same = encoding.float().relation(q.float(), k.float(), positions.arange(1, 16_000_000), keys)[:, :, 0]
    torch.testing.assert_close(same.double(), want, rtol=0, atol=3e-5)
