"""Attention by torch's FlexAttention, compiled."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ropewalk.attention.distance import by_distance_alone
from ropewalk.attention.job import Job
from ropewalk.functional.rotary import full_precision
from ropewalk.modules.encoding import DistanceBias


def refusals(job: Job) -> list[str]:
    """What of this job FlexAttention cannot express, or not on this device."""
    cpu = job.q.device.type == "cpu"
    learns = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (job.q, job.k, job.v))
    found = {
        "the relation door, which needs the weights": "relation" in job.encoding.doors,
        "a bias that is not by distance alone": "bias" in job.encoding.doors and not by_distance_alone(job),
        "sinks": job.sinks is not None,
        "dropout": job.dropout_p > 0,
        "float64": job.q.dtype == torch.float64,
        "gradients on the CPU": cpu and (learns or job.bias_learns),
    }
    return [what for what, holds in found.items() if holds]


def flex(job: Job) -> Tensor:
    """The output of all queries, [B, H, T, D]."""
    if not job.q.numel() or not job.k.numel():
        return job.q.new_zeros(*job.q.shape[:-1], job.v.shape[-1])
    where = job.sight
    q_positions, k_positions = (_rows(p, job.q.shape[0]) for p in (where.q_positions, where.k_positions))
    with full_precision(job.q):
        return _compiled()(
            job.q,
            job.k,
            job.v,
            score_mod=_score_mod(job, q_positions, k_positions),
            block_mask=_block_mask(job, q_positions, k_positions),
            scale=job.scale,
            enable_gqa=job.q.shape[1] != job.k.shape[1],
        )


@cache
def _compiled() -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import flex_attention  # slow to import, and seldom asked for

    return torch.compile(flex_attention)


def _rows(given: Tensor, batch: int) -> Tensor:
    return given.expand(batch, given.shape[-1]).contiguous()


def _score_mod(job: Job, q_positions: Tensor, k_positions: Tensor) -> Callable[..., Tensor] | None:
    """Cap, then the bias, looked up in a table of one number a distance and head."""
    table, low = None, 0
    if isinstance(job.encoding, DistanceBias):
        low = int(k_positions.min() - q_positions.max())
        distances = torch.arange(low, int(k_positions.max() - q_positions.min()) + 1, device=job.q.device)
        table = job.checked(job.encoding.by_distance(distances[None]))[0, :, 0].expand(job.q.shape[1], -1).contiguous()

    def score(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        if job.softcap is not None:
            score = job.softcap * torch.tanh(score / job.softcap)
        return score if table is None else score + table[h, k_positions[b, j] - q_positions[b, i] - low]

    return score if table is not None or job.softcap is not None else None


def _block_mask(job: Job, q_positions: Tensor, k_positions: Tensor) -> Any:
    where, batch = job.sight, job.q.shape[0]
    if where.everything:
        return None
    real = None if where.key_mask is None else _rows(where.key_mask, batch)
    q_documents = None if where.q_documents is None else _rows(where.q_documents, batch)
    k_documents = None if where.k_documents is None else _rows(where.k_documents, batch)

    def sees(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        ahead = k_positions[b, j] - q_positions[b, i]
        seen = ahead <= 0 if where.causal else ahead == ahead
        if where.window is not None:
            seen = seen & (ahead.abs() < where.window)
        if real is not None:
            seen = seen & real[b, j]
        if q_documents is not None and k_documents is not None:
            seen = seen & (q_documents[b, i] == k_documents[b, j])
        return seen

    from torch.nn.attention.flex_attention import create_block_mask

    shape = job.q.shape[-2], job.k.shape[-2]
    return create_block_mask(sees, batch, None, *shape, device=str(job.q.device))
