"""Attention by torch's fused kernels."""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ropewalk.attention.job import Job
from ropewalk.functional.rotary import full_precision


def refusals(job: Job) -> list[str]:
    """What of this job the kernels cannot express."""
    found = {
        "the relation door, which needs the weights": "relation" in job.encoding.doors,
        "softcap": job.softcap is not None,
        "sinks": job.sinks is not None,
        "a scale of 0 or less": job.scale <= 0,  # their triangle gives NaN
    }
    return [what for what, holds in found.items() if holds]


def is_fused(job: Job) -> bool:
    """Whether torch surely takes a kernel that holds no T x S tensor; its plain formula serves the other calls."""
    return job.dropout_p == 0 and job.v.shape[-1] == job.q.shape[-1]


def sdpa(job: Job) -> Tensor:
    """The output of all queries of the job, [B, H, T, D]."""
    triangle = job.sight.triangle and "bias" not in job.encoding.doors
    with full_precision(job.q):  # autocast would round the bias
        return scaled_dot_product_attention(
            job.q,
            job.k,
            job.v,
            attn_mask=None if triangle else _mask(job),
            is_causal=triangle,
            dropout_p=job.dropout_p,
            scale=job.scale,
            enable_gqa=job.q.shape[1] != job.k.shape[1],
        )


def _mask(job: Job) -> Tensor | None:
    """The bias where a key is visible and -inf where not; bool where there is no bias."""
    visible, bias = job.sight.visible(), job.bias()
    if bias is None:
        return visible
    bias = bias.to(torch.float64 if job.q.dtype == torch.float64 else torch.float32)
    return bias if visible is None else bias.masked_fill(~visible, -torch.inf)
