"""Run a backend over blocks of queries, so that memory grows with T + S and not with T x S."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ropewalk.attention.job import Job

# Logits held at once, over batch and heads: 64 MiB in float32.
LOGITS = 2**24
LEAST_ROWS = 16

Core = Callable[[Job, slice], Tensor]


def rows_at_once(job: Job) -> int:
    """Queries in a block."""
    batch, heads, _, _ = job.q.shape
    return max(LEAST_ROWS, LOGITS // max(1, batch * heads * job.k.shape[-2]))


def by_blocks(core: Core, job: Job, rows: int) -> Tensor:
    """`core` of every block of `rows` queries, joined.

    Where a backward pass may follow, a block keeps nothing: it is computed again when its gradient is asked for.
    """
    queries = job.q.shape[-2]
    if queries <= rows:
        return core(job, slice(0, queries))
    blocks = [slice(start, min(start + rows, queries)) for start in range(0, queries, rows)]
    if not job.needs_grad:
        return torch.cat([core(job, block) for block in blocks], dim=-2)
    return torch.cat([checkpoint(core, job, block, use_reentrant=False) for block in blocks], dim=-2)
