"""Attention of near pairs at their own positions and of far pairs at others: torch's fused kernel for each, joined.

A block of queries meets the keys that any of it is near to, and then, both turned on, those that any of it is far from.
Each time what belongs to the other is hidden, so that the two join by their logsumexp.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ropewalk.attention import flash
from ropewalk.attention.job import Job
from ropewalk.attention.sight import Sight
from ropewalk.functional.rotary import full_precision
from ropewalk.modules.remapped import Remapped

ROWS = 128  # queries of a block: fewer call the kernel more often, more hide more of what it computes


def serves(job: Job) -> bool:
    """Whether this call is one, on a device and under transforms where the kernel can be called by name."""
    return (
        isinstance(job.encoding, Remapped)
        and job.encoding.doors == ("rotate", "relation")
        and job.sight.by_index
        and job.sight.causal
        and job.q.shape[-2] <= job.k.shape[-2]
        and flash.serves(job)
    )


def remapped(job: Job) -> Tensor:
    """The output of all queries of the job, [B, H, T, D]."""
    encoding = job.encoding
    assert isinstance(encoding, Remapped)  # `serves` has looked
    with full_precision(job.q):
        far_q, far_k = encoding.turned(job.q, job.k, job.sight.q_positions, job.sight.k_positions)
        (k, v), (far_k, _) = flash.one_head_each(job), flash.one_head_each(replace(job, k=far_k))
        given = map(flash.side_by_side, (job.q, k, far_q, far_k, v))
        out: Tensor = _Remapped.apply(*given, _Rules(encoding, job.sight, job.scale))
    return out


class _Rules(NamedTuple):
    encoding: Remapped
    sight: Sight
    scale: float


class _Part(NamedTuple):
    """Queries and keys of a block that meet at their own positions, or at the others."""

    far: bool
    rows: slice
    keys: slice
    mask: Tensor  # [B, H, rows, keys], 0 or -inf, one in memory for all heads
    lonely: Tensor  # [rows], those that meet no key of the part


def _blocks(rules: _Rules, q: Tensor) -> Iterator[list[_Part]]:
    for start in range(0, q.shape[2], ROWS):
        yield list(_parts(rules, q, slice(start, min(start + ROWS, q.shape[2]))))


def _parts(rules: _Rules, q: Tensor, rows: slice) -> Iterator[_Part]:
    """Of a block of queries their near keys, each itself at least, and their far ones, where any has some."""
    columns = rules.sight.columns(rows)
    block = rules.sight.block(rows, columns)
    near, visible = rules.encoding.near(block.q_positions, block.k_positions), block.visible()
    assert visible is not None  # a block of causal attention hides something, or says that it does not
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    for far, meet in ((False, visible[0, 0] & near), (True, visible[0, 0] & ~near)):
        keys = meet.any(0).nonzero()
        if len(keys):
            cut = slice(int(keys[0]), int(keys[-1]) + 1)
            mask = torch.zeros(meet[:, cut].shape, dtype=wide, device=q.device).masked_fill_(~meet[:, cut], -torch.inf)
            where = slice(columns.start + cut.start, columns.start + cut.stop)
            yield _Part(far, rows, where, mask.expand(*q.shape[:2], -1, -1), ~meet.any(1))


class _Remapped(torch.autograd.Function):
    """A part's gradient needs nothing but the whole row's output and logsumexp."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, far_q: Tensor, far_k: Tensor, v: Tensor, rules: _Rules) -> Tensor:
        """All [B, H, T or S, D], turned already."""
        outs, sums = [], []
        for parts in _blocks(rules, q):
            found = []
            for part in parts:
                queries, theirs = (far_q, far_k) if part.far else (q, k)
                given = queries[:, :, part.rows], theirs[:, :, part.keys], v[:, :, part.keys]
                out, logsumexp = flash.forward(*given, part.mask, rules.scale)
                found.append((out, logsumexp.masked_fill(part.lonely, -torch.inf)))  # the kernel says 0
            out, logsumexp = flash.joined(found)
            outs.append(out)
            sums.append(logsumexp)
        out = torch.cat(outs, dim=2)
        ctx.save_for_backward(q, k, far_q, far_k, v, out, torch.cat(sums, dim=2))
        ctx.rules = rules._replace(sight=rules.sight.copied())
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Of all five; sums over blocks are in float32."""
        *given, out, logsumexp = ctx.saved_tensors
        q, k, far_q, far_k, v = given
        wide, upstream = torch.promote_types(q.dtype, torch.float32), flash.side_by_side(upstream)
        totals = of_q, of_k, of_far_q, of_far_k, of_v = [torch.zeros_like(x, dtype=wide) for x in given]
        for part in (part for parts in _blocks(ctx.rules, q) for part in parts):
            rows, keys = part.rows, part.keys
            queries, theirs = (far_q, far_k) if part.far else (q, k)
            of_queries = [x[:, :, rows] for x in (upstream, queries, out, logsumexp)]
            pieces = (*of_queries, theirs[:, :, keys], v[:, :, keys], part.mask, ctx.rules.scale)
            *found, _ = flash.backward(*pieces, logits=False)
            sums = (of_far_q, of_far_k, of_v) if part.far else (of_q, of_k, of_v)
            for total, gradient, at in zip(sums, found, (rows, keys, keys), strict=True):
                total[:, :, at] += gradient
        return *(total.to(q.dtype) for total in totals), None
