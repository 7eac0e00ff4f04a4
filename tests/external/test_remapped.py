"""Self-Extend, ReRoPE and dual chunk attention: the ways of their authors' code, on transformers' own rotation."""

import math

import pytest
import torch
from external_peers import assert_same, joined, sample
from torch import Tensor
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from ropewalk import DualChunk, Rotary, SelfExtend, attend

HEADS, WIDTH = 3, 16


def turned(x: Tensor, places: Tensor) -> Tensor:
    angles = torch.outer(places.float(), 10_000 ** (-torch.arange(0, WIDTH, 2) / WIDTH)).repeat(1, 2)
    return apply_rotary_pos_emb(x, x, angles.cos()[None], angles.sin()[None])[0]


def scores(q: Tensor, k: Tensor, q_places: Tensor, k_places: Tensor) -> Tensor:
    return turned(q, q_places) @ turned(k, k_places).mT / math.sqrt(WIDTH)


def given(tokens: int) -> list[Tensor]:
    return [(2.0 * sample(2, HEADS, tokens, WIDTH, seed=seed)).detach().requires_grad_() for seed in (1, 2, 3)]


def merged(q: Tensor, k: Tensor, v: Tensor, far: Tensor, window: int) -> Tensor:
    """Two whole matrices of logits, from which each pair takes one: LongLM's `self_extend_forward`, ReRoPE's patch."""
    where = torch.arange(q.shape[-2])
    apart = where[:, None] - where
    logits = torch.where(apart < window, scores(q, k, where, where), far)
    return logits.masked_fill(apart < 0, -math.inf).softmax(-1) @ v


@pytest.mark.parametrize("tokens", [9, 40, 300])
@pytest.mark.parametrize(("group", "window"), [(4, 8), (3, 6), (8, 16), (1, 5), (2, 32)])
def test_self_extend(tokens, group, window):
    """Their w / G is exact: the cases are those in which G divides w."""
    q, k, v = given(tokens)
    where = torch.arange(tokens)
    far = scores(q, k, where // group + window - window / group, where // group)
    theirs = merged(q, k, v, far, window)
    mine = attend(q, k, v, causal=True, encoding=SelfExtend(Rotary(WIDTH), group=group, window=window))
    assert_same(joined(mine), joined(theirs), [q, k, v])


@pytest.mark.parametrize("window", [1, 7, 100])
def test_a_group_of_all_tokens_is_rerope(window):
    """There far queries stand at w, and keys are not turned."""
    q, k, v = given(150)
    far = scores(q, k, torch.full((150,), window), torch.zeros(150))
    mine = attend(q, k, v, causal=True, encoding=SelfExtend(Rotary(WIDTH), group=10**6, window=window))
    assert_same(joined(mine), joined(merged(q, k, v, far, window)), [q, k, v])


def in_chunks(q: Tensor, k: Tensor, v: Tensor, chunk_size: int, local_size: int) -> Tensor:
    """ChunkLlama's `forward`: a chunk against itself, the one before it and all before that, joined by their sums."""
    step, outs = chunk_size - local_size, []
    places = torch.arange(q.shape[-2]) % step
    seen_from = (torch.arange(step) + step).clamp(max=chunk_size)  # their qc_t
    for begin in range(0, q.shape[-2], step):
        rows = slice(begin, begin + step)
        own = places[rows]
        intra = scores(q[:, :, rows], k[:, :, rows], own, own)
        logits = [intra.masked_fill(torch.ones(len(own), len(own)).triu(1).bool(), -math.inf)]
        if begin:
            before = slice(begin - step, begin)
            logits.insert(0, scores(q[:, :, rows], k[:, :, before], seen_from[own], places[before]))
        if begin > step:
            before = slice(0, begin - step)
            inter = seen_from[torch.full_like(own, step - 1)]
            logits.insert(0, scores(q[:, :, rows], k[:, :, before], inter, places[before]))
        outs.append(torch.cat(logits, -1).softmax(-1) @ v[:, :, : begin + len(own)])
    return torch.cat(outs, 2)


@pytest.mark.parametrize("tokens", [9, 40, 300])
@pytest.mark.parametrize(("chunk_size", "local_size"), [(12, 4), (12, 0), (48, 8), (7, 3), (500, 10), (1, 0)])
def test_dual_chunk(tokens, chunk_size, local_size):
    q, k, v = given(tokens)
    encoding = DualChunk(Rotary(WIDTH), chunk_size=chunk_size, local_size=local_size)
    mine = attend(q, k, v, causal=True, encoding=encoding)
    assert_same(joined(mine), joined(in_chunks(q, k, v, chunk_size, local_size)), [q, k, v])
