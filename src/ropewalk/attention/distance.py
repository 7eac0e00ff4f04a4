"""Attention whose bias and window go by the distance alone: torch's fused kernel, and no mask in memory.

Such a bias is one number a head and distance, T + S - 1 of them. Taken from the last query to the first, a block's
rows are that table moved on by one each, so that the mask of the block is the table itself, seen with a stride of one
number a row. Causality and the window are entries of -inf; keys outside both are never read.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ropewalk.attention import flash
from ropewalk.attention.job import Job
from ropewalk.functional.rotary import full_precision
from ropewalk.modules.encoding import DistanceBias

LEAST_ROWS, MOST_ROWS = 32, 256  # queries of a block: fewer call the kernel more often, more see keys for nothing


def serves(job: Job) -> bool:
    """Whether this call is one, on a device and under transforms where the kernel can be called by name."""
    biased = "bias" in job.encoding.doors
    by_distance = by_distance_alone(job) if biased else job.sight.window is not None
    plain = "relation" not in job.encoding.doors
    return by_distance and plain and job.sight.by_index and job.q.shape[-2] <= job.k.shape[-2] and flash.serves(job)


def by_distance_alone(job: Job) -> bool:
    """Whether the bias is what a `DistanceBias` says of each distance."""
    return isinstance(job.encoding, DistanceBias) and type(job.encoding).bias is DistanceBias.bias


def distance(job: Job) -> Tensor:
    """The output of all queries of the job, [B, H, T, D]."""
    k, v = flash.one_head_each(job)
    with full_precision(job.q):
        out: Tensor = _Distance.apply(*map(flash.side_by_side, (job.q, k, v)), _table(job), _reach(job), job.scale)
    return out


class _Reach(NamedTuple):
    """How far a query sees, in keys: back and ahead."""

    back: int
    ahead: int


def _reach(job: Job) -> _Reach:
    furthest = job.k.shape[-2] if job.sight.window is None else job.sight.window - 1
    return _Reach(furthest, 0 if job.sight.causal else furthest)


def _table(job: Job) -> Tensor:
    """What a logit of each distance gets, [H, T + S - 1], from S - 1 back to T - 1 ahead."""
    queries, keys, device = job.q.shape[-2], job.k.shape[-2], job.q.device
    wide = torch.float64 if job.q.dtype == torch.float64 else torch.float32
    relative = torch.arange(1 - keys, queries, device=device)
    back, ahead = _reach(job)
    if isinstance(job.encoding, DistanceBias):
        table = job.checked(job.encoding.by_distance(relative[None]))[0, :, 0].to(wide)
    else:
        table = torch.zeros(1, len(relative), dtype=wide, device=device)
    return table.masked_fill((relative < -back) | (relative > ahead), -torch.inf).expand(job.q.shape[1], -1)


class _Distance(torch.autograd.Function):
    """A block's gradient needs nothing but its output and logsumexp."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, table: Tensor, reach: _Reach, scale: float) -> Tensor:
        """`table`: [H, T + S - 1]."""
        table = table.contiguous()
        outs, sums = [], []
        for rows, keys in _blocks(q, k, reach, MOST_ROWS):
            mask = _mask(table, q, rows, keys)
            out, logsumexp = flash.forward(q[:, :, rows].flip(2), k[:, :, keys], v[:, :, keys], mask, scale)
            outs.append(out.flip(2))
            sums.append(logsumexp.flip(2))
        out = torch.cat(outs, dim=2)
        ctx.save_for_backward(q, k, v, table, out, torch.cat(sums, dim=2))
        ctx.reach, ctx.scale = reach, scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Of q, k, v and the table; sums over blocks are in float32."""
        q, k, v, table, out, logsumexp = ctx.saved_tensors
        totals = [torch.zeros_like(x, dtype=table.dtype) for x in (q, k, v)]
        of_table = torch.zeros_like(table) if ctx.needs_input_grad[3] else None
        upstream = flash.side_by_side(upstream)
        most = MOST_ROWS if of_table is None else flash.rows_with_logits(q, k, MOST_ROWS)
        for rows, keys in _blocks(q, k, ctx.reach, most):
            mask = _mask(table, q, rows, keys)
            of_queries = (x[:, :, rows].flip(2) for x in (upstream, q, out, logsumexp))
            given = (*of_queries, k[:, :, keys], v[:, :, keys], mask, ctx.scale)
            *found, of_logits = flash.backward(*given, logits=of_table is not None)
            if of_table is not None and of_logits is not None:
                first = _first(table, rows, keys, q)
                of_table[:, first : first + of_logits.shape[-1] + of_logits.shape[-2] - 1] += _by_diagonal(of_logits)
            totals[0][:, :, rows] += found[0].flip(2)
            for total, part in zip(totals[1:], found[1:], strict=True):
                total[:, :, keys] += part
        return *(total.to(q.dtype) for total in totals), of_table, None, None


def _blocks(q: Tensor, k: Tensor, reach: _Reach, most: int) -> Iterator[tuple[slice, slice]]:
    """Each block of queries, with the keys that any of them sees."""
    queries, keys = q.shape[2], k.shape[2]
    before = keys - queries
    size = min(most, max(LEAST_ROWS, min(queries, reach.back) // 8))
    for start in range(0, queries, size):
        stop = min(start + size, queries)
        yield slice(start, stop), slice(max(0, before + start - reach.back), min(keys, before + stop + reach.ahead))


def _mask(table: Tensor, q: Tensor, rows: slice, keys: slice) -> Tensor:
    """The table as the block's mask, [B, H, rows, keys], rows from the last to the first."""
    shape = q.shape[0], q.shape[1], rows.stop - rows.start, keys.stop - keys.start
    first = table.storage_offset() + _first(table, rows, keys, q)
    return table.as_strided(shape, (0, table.stride(0), 1, 1), first)


def _first(table: Tensor, rows: slice, keys: slice, q: Tensor) -> int:
    """The entry of the block's last query and first key."""
    return keys.start + q.shape[2] - rows.stop


def _by_diagonal(of_logits: Tensor) -> Tensor:
    """[B, H, rows, keys] summed over batch and diagonals, as `_mask` laid the table over them: [H, rows + keys - 1]."""
    of_logits = of_logits.sum(0)
    heads, rows, keys = of_logits.shape
    slanted = of_logits.new_zeros(heads, rows, rows + keys - 1)
    slanted.as_strided(of_logits.shape, (slanted.stride(0), slanted.stride(1) + 1, 1)).copy_(of_logits)
    return slanted.sum(1)
