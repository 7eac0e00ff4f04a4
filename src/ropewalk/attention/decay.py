"""Causal attention whose bias is a difference, p(key) - p(query), as ALiBi's is: torch's fused kernel, and no mask.

The part of the query is the same for all keys, so it falls out of the softmax; what is left is one number a key and
head, which the kernel takes as a mask whose rows are one row in memory. Queries go in blocks, each against the keys
before it and against its own triangle, joined by their logsumexp, so that p is counted from the middle of the block: by
what a logit is rounded does not grow with the length, but for far keys as their bias does.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ropewalk.attention.job import Job
from ropewalk.functional.rotary import full_precision

ROWS = 128  # queries of a block: fewer call the kernel more often, more round a near key as a farther one

FORWARD = "_scaled_dot_product_flash_attention_for_cpu"
BACKWARD = f"{FORWARD}_backward"


@cache
def kernel(name: str) -> Any:
    """torch's operator of that name; None where this torch has none, since it promises neither."""
    return getattr(getattr(torch.ops.aten, name, None), "default", None)


def serves(job: Job) -> bool:
    """Whether this call is one, on a device and under transforms where the kernel can be called by name."""
    possible = (
        job.sight.staircase
        and job.q.device.type == "cpu"
        and job.q.shape[-2] > 1
        and job.q.numel() > 0
        and job.v.shape[-1] == job.q.shape[-1]
        and job.softcap is None
        and job.sinks is None
        and job.dropout_p == 0
        and "relation" not in job.encoding.doors
        and not job.bias_learns  # the kernel gives no gradient to p
        and all(type(x) is Tensor for x in (job.q, job.k, job.v))
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
        and torch.autograd.forward_ad._current_level < 0
        and None not in (kernel(FORWARD), kernel(BACKWARD))
    )
    potential = job.encoding.potential(job.sight.k_positions[..., :1]) if possible else None
    return potential is not None and len(potential) == job.q.shape[1]


def decay(job: Job) -> Tensor:
    """The output of all queries of the job, [B, H, T, D]."""
    potential = job.encoding.potential(job.sight.k_positions)
    groups = job.q.shape[1] // job.k.shape[1]
    k, v = (x.repeat_interleave(groups, dim=1) if groups > 1 else x for x in (job.k, job.v))
    with full_precision(job.q):
        out: Tensor = _Decay.apply(*map(_side_by_side, (job.q, k, v)), potential, job.scale)
    return out


def _side_by_side(x: Tensor) -> Tensor:
    """With the features of a head together, which is all that the kernel takes; it does not ask."""
    return x if x.stride(-1) == 1 else x.contiguous()


class _Decay(torch.autograd.Function):
    """A block's gradient needs nothing but its output and logsumexp: the kernel's own backward pass takes the whole
    row's in place of the part's."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, potential: Tensor, scale: float) -> Tensor:
        """`potential`: float64 [H, S]."""
        outs, sums = [], []
        attention = kernel(FORWARD)
        for rows, parts in _blocks(q, k):
            found = [
                attention(q[:, :, rows], k[:, :, keys], v[:, :, keys], 0.0, causal,
                          attn_mask=_mask(potential, rows, keys, q, k), scale=scale)
                for keys, causal in parts
            ]  # fmt: skip
            out, logsumexp = _joined(found)
            outs.append(out)
            sums.append(logsumexp)
        out = torch.cat(outs, dim=2)
        ctx.save_for_backward(q, k, v, potential, out, torch.cat(sums, dim=2))
        ctx.scale = scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Of q, k and v; sums over blocks are in float32."""
        q, k, v, potential, out, logsumexp = ctx.saved_tensors
        upstream = _side_by_side(upstream)
        wide = torch.float64 if q.dtype == torch.float64 else torch.float32
        of_q, of_k, of_v = (torch.zeros_like(x, dtype=wide) for x in (q, k, v))
        gradients = kernel(BACKWARD)
        for rows, parts in _blocks(q, k):
            for keys, causal in parts:
                found = gradients(
                    upstream[:, :, rows], q[:, :, rows], k[:, :, keys], v[:, :, keys], out[:, :, rows],
                    logsumexp[:, :, rows], 0.0, causal, attn_mask=_mask(potential, rows, keys, q, k), scale=ctx.scale,
                )  # fmt: skip
                for total, part, at in zip((of_q, of_k, of_v), found, (rows, keys, keys), strict=True):
                    total[:, :, at] += part
        return of_q.to(q.dtype), of_k.to(k.dtype), of_v.to(v.dtype), None, None


def _blocks(q: Tensor, k: Tensor) -> Iterator[tuple[slice, list[tuple[slice, bool]]]]:
    """Each block of queries, with the keys before it and its own, of which it sees a triangle."""
    queries, before = q.shape[2], k.shape[2] - q.shape[2]
    for start in range(0, queries, ROWS):
        stop = min(start + ROWS, queries)
        own = (slice(before + start, before + stop), True)
        yield slice(start, stop), [own] if before + start == 0 else [(slice(0, before + start), False), own]


def _mask(potential: Tensor, rows: slice, keys: slice, q: Tensor, k: Tensor) -> Tensor:
    """[B, H, rows, keys], one row in memory: p counted from the middle of the block's queries."""
    before = k.shape[2] - q.shape[2]
    middle = potential[:, before + (rows.start + rows.stop - 1) // 2, None]
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    row = (potential[:, keys] - middle).to(wide)
    return row[None, :, None].expand(q.shape[0], -1, rows.stop - rows.start, -1)


def _joined(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Outputs over some of the keys each as the output over all of them."""
    if len(parts) == 1:
        return parts[0]
    (one, one_sum), (other, other_sum) = parts
    total = torch.logaddexp(one_sum, other_sum)
    share = (other_sum - total).exp()[..., None]
    return torch.lerp(one.to(share.dtype), other.to(share.dtype), share).to(one.dtype), total
