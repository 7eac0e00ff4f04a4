"""Run a backend over blocks of queries, so that memory grows with T + S and not with T x S."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint, get_device_states, set_device_states

from ropewalk.attention.job import Job

# Logits held at once, over batch and heads: 16 MiB in float32, which caches hold in part. Not fewer than 64 queries:
# a block reads all keys and its backward pass adds to the gradient of all, which has to be worth it.
LOGITS = 2**22
LEAST_ROWS = 64

Core = Callable[[Job], Tensor]


def rows_at_once(job: Job) -> int:
    """Queries in a block."""
    batch, heads, _, _ = job.q.shape
    return max(LEAST_ROWS, LOGITS // max(1, batch * heads * job.k.shape[-2]))


def by_blocks(core: Core, job: Job, rows: int) -> Tensor:
    """`core` of every block of `rows` queries, joined. A block keeps nothing for the backward pass but its inputs."""
    if torch.compiler.is_exporting() or job.q.shape[-2] <= rows:  # an exported graph serves every length
        return core(job)
    if torch.compiler.is_compiling():  # which does not trace a function that differentiates in its backward pass
        return torch.cat(
            [checkpoint(core, job.block(block), use_reentrant=False) for block in _slices(job, rows)], dim=-2
        )
    return _Blocks.apply(core, job, rows, job.q, job.k, job.v, job.sinks, *job.encoding.parameters())


def _slices(job: Job, rows: int) -> list[slice]:
    queries = job.q.shape[-2]
    return [slice(start, min(start + rows, queries)) for start in range(0, queries, rows)]


class _Blocks(torch.autograd.Function):
    """Each block is computed again in the backward pass, and its gradients are added to the rows they belong to.

    `torch.utils.checkpoint` block by block gives the same, but makes a gradient of all keys for each block, and leaves
    the heap in such pieces that the process grows by gigabytes.
    """

    @staticmethod
    def forward(
        ctx: Any, core: Core, job: Job, rows: int, q: Tensor, k: Tensor, v: Tensor, *learned: Tensor | None
    ) -> Tensor:
        ctx.core, ctx.job, ctx.rows = core, job, rows
        ctx.random = (torch.get_rng_state(), *get_device_states(q)) if job.dropout_p else None
        ctx.save_for_backward(q, k, v, *learned)  # the parameters too: one changed in place meanwhile is an error
        out = q.new_empty(*q.shape[:-1], v.shape[-1])
        for block in _slices(job, rows):
            out[:, :, block] = core(job.block(block))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, sinks, *_ = (None if saved is None else saved.detach() for saved in ctx.saved_tensors)
        job = replace(ctx.job, q=q, k=k, v=v, sinks=None if sinks is None else sinks.requires_grad_())
        learned = (sinks, *job.encoding.parameters())
        shared = [tensor for tensor in learned if tensor is not None and tensor.requires_grad]
        total = {tensor: torch.zeros_like(tensor) for tensor in (q, k, v, *shared)}
        with _replayed(ctx.random):
            for rows in _slices(job, ctx.rows):
                columns = job.sight.columns(rows)
                places = [total[q][:, :, rows], total[k][:, :, columns], total[v][:, :, columns]]
                places += [total[tensor] for tensor in shared]
                found = _gradients(ctx.core, job.block(rows), shared, upstream[:, :, rows])
                for place, gradient in zip(places, found, strict=True):
                    if gradient is not None:
                        place += gradient
        return None, None, None, *(None if tensor is None else total.get(tensor) for tensor in (q, k, v, *learned))


def _gradients(core: Core, block: Job, shared: list[Tensor], upstream: Tensor) -> tuple[Tensor | None, ...]:
    """Those of a block's q, k and v, then those of what all blocks share."""
    q, k, v = (tensor.detach().requires_grad_() for tensor in (block.q, block.k, block.v))
    with torch.enable_grad():
        out = core(replace(block, q=q, k=k, v=v))
    return torch.autograd.grad(out, [q, k, v, *shared], upstream, allow_unused=True)


@contextmanager
def _replayed(random: tuple[Tensor, list[int], list[Tensor]] | None) -> Iterator[None]:
    """Draw the random numbers of the forward pass again: dropout drops the same weights."""
    if random is None:
        yield
        return
    state, devices, states = random
    with torch.random.fork_rng(devices):
        torch.set_rng_state(state)
        set_device_states(devices, states)
        yield
