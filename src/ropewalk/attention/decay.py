"""Causal attention whose bias is a difference, p(key) - p(query), as a forget gate's is: torch's fused kernel, no mask.

The part of the query is the same for all keys, so it falls out of the softmax; what is left is one number a key and
head, which the kernel takes as a mask whose rows are one row in memory. Queries go in blocks, each against the keys
before it and against its own triangle, joined by their logsumexp, so that p is counted from the middle of the block: by
what a logit is rounded does not grow with the length, but for far keys as their bias does.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ropewalk.attention import flash
from ropewalk.attention.job import Job
from ropewalk.functional.rotary import full_precision

ROWS = 128  # queries of a block: fewer call the kernel more often, more round a near key as a farther one


def serves(job: Job) -> bool:
    """Whether this call is one, on a device and under transforms where the kernel can be called by name."""
    if not (job.sight.staircase and "relation" not in job.encoding.doors and flash.serves(job)):
        return False
    potential = job.encoding.potential(job.sight.k_positions[..., :1])
    return potential is not None and potential.shape[-2] == job.q.shape[1]


def decay(job: Job) -> Tensor:
    """The output of all queries of the job, [B, H, T, D]."""
    potential = job.encoding.potential(job.sight.k_positions)
    assert potential is not None  # `serves` has asked
    potential = potential if potential.dim() == 3 else potential[None]
    k, v = flash.one_head_each(job)
    with full_precision(job.q):
        out: Tensor = _Decay.apply(*map(flash.side_by_side, (job.q, k, v)), potential, job.scale)
    return out


class _Decay(torch.autograd.Function):
    """A block's gradient needs nothing but its output and logsumexp: the kernel's own backward pass takes the whole
    row's in place of the part's."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, potential: Tensor, scale: float) -> Tensor:
        """`potential`: [1 or B, H, S]."""
        outs, sums = [], []
        for rows, parts in _blocks(q, k):
            found = [
                flash.forward(q[:, :, rows], k[:, :, keys], v[:, :, keys], _mask(potential, rows, keys, q, k), scale)
                for keys in parts
            ]
            out, logsumexp = flash.joined(found)
            outs.append(out)
            sums.append(logsumexp)
        out = torch.cat(outs, dim=2)
        ctx.save_for_backward(q, k, v, potential, out, torch.cat(sums, dim=2))
        ctx.scale = scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Of q, k, v and p; sums over blocks are in float32. Queries give p none: their weights add up to 1."""
        q, k, v, potential, out, logsumexp = ctx.saved_tensors
        upstream = flash.side_by_side(upstream)
        totals = [torch.zeros_like(x, dtype=_wide(q)) for x in (q, k, v)]
        of_potential = torch.zeros_like(potential) if ctx.needs_input_grad[3] else None
        for rows, parts in _blocks(q, k):
            of_queries = [x[:, :, rows] for x in (upstream, q, out, logsumexp)]
            for keys in parts:
                given = (*of_queries, k[:, :, keys], v[:, :, keys], _mask(potential, rows, keys, q, k), ctx.scale)
                *found, of_logits = flash.backward(*given, logits=of_potential is not None)
                if of_potential is not None and of_logits is not None:
                    of_potential[..., keys] += of_logits.sum(2).sum_to_size(of_potential[..., keys].shape)
                for total, part, at in zip(totals, found, (rows, keys, keys), strict=True):
                    total[:, :, at] += part
        return *(total.to(q.dtype) for total in totals), of_potential, None


def _blocks(q: Tensor, k: Tensor) -> Iterator[tuple[slice, list[slice]]]:
    """Each block of queries, with the keys before it and its own, of which it sees a triangle."""
    queries, before = q.shape[2], k.shape[2] - q.shape[2]
    for start in range(0, queries, ROWS):
        stop = min(start + ROWS, queries)
        own = slice(before + start, before + stop)
        yield slice(start, stop), [own] if own.start == 0 else [slice(0, own.start), own]


def _mask(potential: Tensor, rows: slice, keys: slice, q: Tensor, k: Tensor) -> Tensor:
    """[B, H, rows, keys], one row in memory before the block: p counted from the middle of the block's queries."""
    before, size = k.shape[2] - q.shape[2], rows.stop - rows.start
    middle = potential[..., before + (rows.start + rows.stop - 1) // 2, None]
    row = (potential[..., keys] - middle).to(_wide(q))
    mask = row[..., None, :].expand(q.shape[0], -1, size, -1)
    if keys.start < before + rows.start:
        return mask
    return mask.masked_fill(torch.ones(size, size, dtype=torch.bool).triu(1), -torch.inf)


def _wide(q: Tensor) -> torch.dtype:
    return torch.float64 if q.dtype == torch.float64 else torch.float32
