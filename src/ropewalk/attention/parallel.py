"""Attention of a sequence that is cut over devices."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from ropewalk._errors import RopewalkError
from ropewalk.attention.attention import attend
from ropewalk.attention.job import check_tensors


def attend_sharded(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Tensor,
    *,
    group: dist.ProcessGroup | None = None,
    key_mask: Tensor | None = None,
    documents: Tensor | None = None,
    **options: Any,
) -> Tensor:
    """`attend` for this rank's tokens of a sequence, over the keys and values of all ranks.

    Each rank gathers what the others hold and attends by positions, so that it does not matter how the sequence was
    cut. While it does, it holds the keys and values of the whole sequence (and for the backward pass too): memory for
    queries, outputs and all that is not attention shrinks with the number of ranks, that for keys and values does not.
    A causal query meets the keys after it and ignores them.

    Args:
        q: [B, H, T / ranks, D], un-rotated: this rank's, in any order. Ranks hold equally many tokens.
        k, v: the same tokens', [B, K, T / ranks, D] and [B, K, T / ranks, any width].
        positions: of these in the whole sequence, integers [T / ranks] or [B, T / ranks]: such as
            `positions.context_parallel(T, rank, ranks)`.
        group: the ranks that share the sequence; all of them where left out.
        key_mask, documents: of this rank's tokens, as in `attend`.
        options: the others of `attend`: causal, encoding, length, window and so on.

    Returns:
        [B, H, T / ranks, width of v]: what one process computes for these tokens. Gradients of k and v are those of
        all ranks' queries, summed in float32 (float64 for float64). What an encoding learns gets this rank's part:
        sum it over the ranks.

    Raises:
        RopewalkError: no process group, or what `attend` refuses.

    Example:
        >>> import ropewalk as rw
        >>> where = rw.positions.context_parallel(4096, rank=0, world=2)
        >>> out = rw.attend_sharded(q, k, v, where, causal=True, encoding=rope)  # doctest: +SKIP

    Source: Grattafiori et al. 2024 (Llama 3, arXiv 2407.21783), section 3.3.2, context parallelism by all-gather.
    """
    if not dist.is_initialized():
        raise RopewalkError("attend_sharded: no process group; call torch.distributed.init_process_group, or attend")
    check_tensors(q, k, v)
    pieces: tuple[Tensor, ...] = _Gathered.apply(torch.cat((k, v), dim=-1), group)
    keys, values = torch.cat(_own_last(pieces, group), dim=2).split((k.shape[-1], v.shape[-1]), dim=-1)
    out: Any = attend(
        q,
        keys,
        values,
        q_positions=positions,
        k_positions=_of_all_keys(positions, group),
        key_mask=None if key_mask is None else _of_all_keys(key_mask, group),
        documents=None if documents is None else _of_all_keys(documents, group),
        **options,
    )
    return out


class _Gathered(torch.autograd.Function):
    """The tensors of all ranks, in the order of the ranks; backward, what all ranks have for this one's, summed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup | None) -> tuple[Tensor, ...]:
        ctx.group = group
        return tuple(_pieces(x, group))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        own, wide = upstream[0], torch.float64 if upstream[0].dtype == torch.float64 else torch.float32
        total = torch.empty_like(own, dtype=wide, memory_format=torch.contiguous_format)
        dist.reduce_scatter(total, [each.to(wide).contiguous() for each in upstream], group=ctx.group)
        return total.to(own.dtype), None


def _pieces(x: Tensor, group: dist.ProcessGroup | None) -> list[Tensor]:
    x = x.contiguous()
    pieces = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    dist.all_gather(pieces, x, group=group)
    return pieces


def _of_all_keys(x: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    """Numbers of tokens, [..., T / ranks], as those of the gathered keys."""
    return torch.cat(_own_last(_pieces(x, group), group), dim=-1)


def _own_last(pieces: Any, group: dist.ProcessGroup | None) -> list[Tensor]:
    """In an order in which this rank's tokens are the last, where `attend` looks for the queries' documents."""
    after = dist.get_rank(group) + 1
    return [*pieces[after:], *pieces[:after]]
