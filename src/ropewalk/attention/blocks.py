"""Run a backend over blocks of queries, so that memory grows with T + S and not with T x S."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint, get_device_states, set_device_states

from ropewalk._errors import RopewalkError
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
    def forward(ctx: Any, core: Core, job: Job, rows: int, *inputs: Tensor | None) -> Tensor:
        """`inputs`: q, k, v, the sinks and the encoding's parameters, all that a gradient can be asked of."""
        ctx.core, ctx.rows = core, rows
        nothing: Any = None  # in place of tensors, so that hooks on what is saved can free or move it
        ctx.rules = replace(job, q=nothing, k=nothing, v=nothing, sinks=nothing, sight=job.sight.copied())
        ctx.random = torch.get_rng_state(), *get_device_states(job.q)  # an encoding may draw numbers of its own
        ctx.save_for_backward(*inputs)
        out = job.q.new_empty(*job.q.shape[:-1], job.v.shape[-1])
        for block in _slices(job, rows):
            out[:, :, block] = core(job.block(block))
        return out

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RopewalkError("attend: queries taken in blocks give no second derivatives; shorten the input")
        wanted, (q, k, v, sinks, *parameters) = ctx.needs_input_grad[3:], ctx.saved_tensors
        job = replace(ctx.rules, q=q, k=k, v=v, sinks=sinks)
        inputs = (q, k, v, sinks, *parameters)
        totals = [_zeros(tensor) if wants else None for tensor, wants in zip(inputs, wanted, strict=True)]
        with _replayed(ctx.random):
            for rows in _slices(job, ctx.rows):
                columns, block = job.sight.columns(rows), job.block(rows)
                cuts = (rows, columns, columns, *[slice(None)] * (len(inputs) - 3))
                found = _gradients(ctx.core, block, parameters, wanted, upstream[:, :, rows])
                for total, cut, gradient in zip(totals, cuts, found, strict=True):
                    if total is not None and gradient is not None:
                        (total if cut == slice(None) else total[:, :, cut]).add_(gradient)
        return (
            None,
            None,
            None,
            *(None if total is None else total.to(tensor.dtype) for total, tensor in zip(totals, inputs, strict=True)),
        )


class _Held(nn.Module):
    """A core as a module, so that the encoding can be lent the parameters that the forward pass had."""

    def __init__(self, encoding: nn.Module) -> None:
        super().__init__()
        self.encoding = encoding

    def forward(self, core: Core, job: Job) -> Tensor:
        return core(job)


def _gradients(
    core: Core, block: Job, parameters: list[Tensor], wanted: tuple[bool, ...], upstream: Tensor
) -> list[Tensor | None]:
    """Those of a block's q, k and v, of the sinks and of the parameters; None for what is not wanted."""
    given = (block.q, block.k, block.v, block.sinks, *parameters)
    leaves: list[Any] = [
        t if t is None else t.detach().requires_grad_(wants) for t, wants in zip(given, wanted, strict=True)
    ]
    names = (f"encoding.{name}" for name, _ in block.encoding.named_parameters())
    lent = dict(zip(names, leaves[4:], strict=True))
    block = replace(block, **dict(zip(("q", "k", "v", "sinks"), leaves[:4], strict=True)))
    with torch.enable_grad():
        out = functional_call(_Held(block.encoding), lent, (core, block))
    chosen = [leaf for leaf, wants in zip(leaves, wanted, strict=True) if wants]
    found = iter(torch.autograd.grad(out, chosen, upstream, allow_unused=True))
    return [next(found) if wants else None for wants in wanted]


def _zeros(tensor: Tensor) -> Tensor:
    """Where gradients of many blocks are summed: a sum in low precision would stop growing."""
    return torch.zeros_like(tensor, dtype=torch.float64 if tensor.dtype == torch.float64 else torch.float32)


@contextmanager
def _replayed(random: tuple[Tensor, list[int], list[Tensor]]) -> Iterator[None]:
    """Draw the random numbers of the forward pass again: dropout drops the same weights."""
    state, devices, states = random
    with torch.random.fork_rng(devices):
        torch.set_rng_state(state)
        set_device_states(devices, states)
        yield
