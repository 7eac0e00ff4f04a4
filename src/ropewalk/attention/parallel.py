"""Attention of a sequence that is cut over devices."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from ropewalk import positions as _positions
from ropewalk._errors import RopewalkError
from ropewalk.attention.attention import attend
from ropewalk.attention.job import check_tensors


def attend_sharded(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool,
    zigzag: bool = True,
    group: dist.ProcessGroup | None = None,
    positions: Tensor | None = None,
    key_mask: Tensor | None = None,
    documents: Tensor | None = None,
    length: int | Tensor | None = None,
    **options: Any,
) -> Tensor:
    """`attend` for this rank's tokens of a sequence, over the keys and values of all ranks.

    Each rank gathers the keys and values of the others and keeps them for its backward pass: memory for queries,
    outputs and all that is not attention shrinks with the number of ranks, that for keys and values does not. Each
    chunk is a call of `attend` with what is before it, so that no causal query meets later keys.

    Args:
        q: [B, H, T / ranks, D], un-rotated: the tokens `positions.context_parallel(T, rank, ranks, zigzag=zigzag)`.
        k, v: of the same tokens, [B, K, T / ranks, D] and [B, K, T / ranks, any width].
        causal, length: as in `attend`; `length` is of the whole sequence.
        zigzag: how the sequence was cut; with it, causal work is even.
        group: the ranks that share the sequence; all of them where left out.
        positions: of this rank's tokens, where they do not count from 0 over the whole sequence, as under left padding:
            integers [T / ranks] or [B, T / ranks].
        key_mask, documents: of this rank's tokens.
        options: encoding, window, scale, softcap, sinks, dropout_p and backend, as in `attend`.

    Returns:
        [B, H, T / ranks, width of v], what one process computes for these tokens. Gradients of k and v are those of
        all ranks' queries, summed in float32 (float64 for float64). What an encoding learns gets this rank's part:
        sum it over the ranks.

    Raises:
        RopewalkError: no process group, an odd number of tokens under `zigzag`, what `attend` refuses.

    Example:
        >>> import ropewalk as rw
        >>> mine = rw.positions.context_parallel(4096, rank=0, world=2)  # the tokens of a rank that torchrun started
        >>> out = rw.attend_sharded(q, k, v, causal=True, encoding=rw.Rotary(64))  # doctest: +SKIP

    Source: Grattafiori et al. 2024 (Llama 3, arXiv 2407.21783), section 3.3.2, context parallelism by all-gather.
    """
    _check(q, k, v, zigzag, options)
    both = _in_order(_Gathered.apply(torch.cat((k, v), dim=-1), group), 2, zigzag)
    gathered = (
        None if x is None else _in_order(_pieces(x, group), -1, zigzag) for x in (positions, key_mask, documents)
    )
    whole = _Tokens(both, *gathered)
    if length is None:  # the whole sequence's, however little of it a chunk sees
        length = both.shape[2] if whole.positions is None else whole.positions.long().amax(-1) + 1
    if not causal and whole.positions is None:
        whole = whole._replace(positions=_positions.arange(both.shape[2], device=q.device))
    outs = []
    for own, stop in _chunks(q, zigzag, group):
        seen = whole.seen(stop, causal)
        keys, values = seen.both.split((k.shape[-1], v.shape[-1]), dim=-1)
        sight: dict[str, Any] = {
            "q_positions": None if seen.positions is None else seen.positions[..., -own.shape[2] :],
            "k_positions": seen.positions,
            "key_mask": seen.key_mask,
            "documents": seen.documents,
            "length": length,
        }
        out: Any = attend(own, keys, values, causal=causal, **sight, **options)
        outs.append(out)
    return torch.cat(outs, dim=2)


class _Tokens(NamedTuple):
    """Keys beside values [B, K, T, widths], and what is known of their tokens, [..., T]."""

    both: Tensor
    positions: Tensor | None
    key_mask: Tensor | None
    documents: Tensor | None

    def seen(self, stop: int, causal: bool) -> "_Tokens":
        """What a chunk that ends at `stop` sees, in an order in which its own tokens are the last."""

        def part(x: Any, axis: int = -1) -> Any:
            return x if x is None else x.narrow(axis, 0, stop) if causal else x.roll(-stop, axis)

        return _Tokens(part(self.both, 2), part(self.positions), part(self.key_mask), part(self.documents))


def _check(q: Tensor, k: Tensor, v: Tensor, zigzag: bool, options: dict[str, Any]) -> None:
    if not dist.is_initialized():
        raise RopewalkError("attend_sharded: no process group; call torch.distributed.init_process_group, or attend")
    strange = {"q_positions", "k_positions", "explain"} & set(options)
    if strange:
        raise RopewalkError(f"attend_sharded: {', '.join(sorted(strange))} is not taken; give positions, this rank's")
    check_tensors(q, k, v)
    if q.shape[2] != k.shape[2] or (zigzag and q.shape[2] % 2):
        raise RopewalkError(
            f"attend_sharded: {q.shape[2]} queries and {k.shape[2]} keys; give those of the same tokens"
            + (", an even number for zigzag" if zigzag else "")
        )


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


def _in_order(pieces: Sequence[Tensor], axis: int, zigzag: bool) -> Tensor:
    """The ranks' tokens as one sequence: under zigzag each has an early chunk and, from the end on, a late one."""
    if not zigzag:
        return torch.cat(list(pieces), dim=axis)
    early, late = zip(*(piece.chunk(2, dim=axis) for piece in pieces), strict=True)
    return torch.cat((*early, *reversed(late)), dim=axis)


def _chunks(q: Tensor, zigzag: bool, group: dist.ProcessGroup | None) -> list[tuple[Tensor, int]]:
    """This rank's queries by chunk, and where in the sequence each chunk ends."""
    rank, world, tokens = dist.get_rank(group), dist.get_world_size(group), q.shape[2]
    if not zigzag:
        return [(q, (rank + 1) * tokens)]
    early, late = q.chunk(2, dim=2)
    return [(early, (rank + 1) * tokens // 2), (late, (2 * world - rank) * tokens // 2)]
