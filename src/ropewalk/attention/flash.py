"""torch's fused attention of the CPU, called by its own name: it gives the logsumexp, by which parts are joined."""

from typing import Any

import torch
from torch import Tensor

from ropewalk.attention.job import Job


def _operator(name: str) -> Any:
    """An operator that is torch's own affair and may be gone in a later one: None, and other ways serve."""
    packet = getattr(torch.ops.aten, name, None)
    return None if packet is None else packet.default


def serves(job: Job) -> bool:
    """Whether the kernel takes this call, but for what its mask has to say."""
    return (
        job.q.device.type == "cpu"
        and job.q.numel() > 0
        and job.v.shape[-1] == job.q.shape[-1]
        and job.softcap is None
        and job.sinks is None
        and job.dropout_p == 0
        and job.scale > 0
        and all(type(x) is Tensor for x in (job.q, job.k, job.v))
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
        and torch.autograd.forward_ad._current_level < 0
        and None not in (_operator(_FORWARD), _operator(_BACKWARD))
    )


_FORWARD = "_scaled_dot_product_flash_attention_for_cpu"
_BACKWARD = "_scaled_dot_product_flash_attention_for_cpu_backward"


def one_head_each(job: Job) -> tuple[Tensor, Tensor]:
    """k and v with a head for each of q's."""
    groups = job.q.shape[1] // job.k.shape[1]
    return (job.k, job.v) if groups == 1 else (
        job.k.repeat_interleave(groups, dim=1), job.v.repeat_interleave(groups, dim=1)
    )  # fmt: skip


def side_by_side(x: Tensor) -> Tensor:
    """With the features of a head together, which is all that the kernel takes; it does not ask."""
    return x if x.stride(-1) == 1 else x.contiguous()


def rows_with_logits(q: Tensor, k: Tensor, most: int) -> int:
    """Queries of a block whose logits are made: 16 MiB of them in float32, and not under 32 queries."""
    return min(most, max(32, 2**22 // max(1, q.shape[0] * q.shape[1] * k.shape[2])))


def forward(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Output [B, H, T, D] and logsumexp [B, H, T] of logits with `mask` added, a view of any strides."""
    out, logsumexp = _operator(_FORWARD)(q, k, v, 0.0, False, attn_mask=mask, scale=scale)
    return out, logsumexp


def backward(
    upstream: Tensor,
    q: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor,
    scale: float,
    *,
    logits: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of q, k and v, and where `logits` asks for it that of the logits, [B, H, T, S].

    `out` and `logsumexp` may be those over more keys than these. The kernel keeps the logits' gradient to itself, so
    that then all is computed here.
    """
    if not logits:
        given = (upstream, q, k, v, out, logsumexp, 0.0, False)
        return *_operator(_BACKWARD)(*given, attn_mask=mask, scale=scale), None
    upstream, q, out, k, v = (x.to(mask.dtype) for x in (upstream, q, out, k, v))
    weights = (q @ k.mT).mul_(scale).add_(mask).sub_(logsumexp[..., None]).exp_()
    of_v = weights.mT @ upstream
    of_logits = (upstream @ v.mT).sub_((upstream * out).sum(-1, keepdim=True)).mul_(weights)
    return (of_logits @ k).mul_(scale), (of_logits.mT @ q).mul_(scale), of_v, of_logits


def joined(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Outputs over some of the keys each as the output over all of them."""
    if len(parts) == 1:
        return parts[0]
    (one, one_sum), (other, other_sum) = parts
    total = torch.logaddexp(one_sum, other_sum)
    share = (other_sum - total).exp()[..., None]
    return torch.lerp(one.to(share.dtype), other.to(share.dtype), share).to(one.dtype), total
