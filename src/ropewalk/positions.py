"""Positions of tokens, always as integers: cached, padded, packed, or cut over devices."""

import torch
from torch import Tensor

from ropewalk._checks import whole
from ropewalk._errors import RopewalkError


def arange(length: int, offset: int = 0, *, device: torch.device | str | None = None) -> Tensor:
    """Positions offset .. offset + length - 1, int64 [T]; `offset` is the number of tokens already cached.

    Example:
        >>> arange(3, offset=5)
        tensor([5, 6, 7])
    """
    whole("positions.arange", "length", length, least=0)
    whole("positions.arange", "offset", offset, least=0)
    return torch.arange(offset, offset + length, dtype=torch.int64, device=device)


def from_attention_mask(mask: Tensor) -> Tensor:
    """Positions that count the real tokens of each row, and 0 under padding, on whichever side it stands.

    Args:
        mask: [B, T], bool or 0/1, 1 = real.

    Returns:
        int64 [B, T].

    Example:
        >>> from_attention_mask(torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 0]]))
        tensor([[0, 0, 0, 1, 2],
                [0, 1, 2, 3, 0]])
    """
    real = check_mask("from_attention_mask", mask)
    return (real.long().cumsum(-1) - 1).masked_fill(~real, 0)


def from_cu_seqlens(cu_seqlens: Tensor) -> Tensor:
    """Positions of packed documents, each counting from 0.

    Args:
        cu_seqlens: integers [documents + 1], 0 first, then where each document ends.

    Returns:
        int64 [T], T the last entry.

    Example:
        >>> from_cu_seqlens(torch.tensor([0, 3, 7]))
        tensor([0, 1, 2, 0, 1, 2, 3])
    """
    starts = _starts("from_cu_seqlens", cu_seqlens)
    return arange(int(cu_seqlens[-1]), device=cu_seqlens.device) - starts[documents(cu_seqlens)]


def documents(cu_seqlens: Tensor) -> Tensor:
    """The number of the document that each packed token belongs to, int64 [T]: `attend`'s `documents`.

    Example:
        >>> documents(torch.tensor([0, 3, 7]))
        tensor([0, 0, 0, 1, 1, 1, 1])
    """
    starts = _starts("documents", cu_seqlens)
    return torch.arange(len(starts), device=starts.device).repeat_interleave(cu_seqlens.long().diff())


def context_parallel(length: int, rank: int, world: int, *, zigzag: bool = True) -> Tensor:
    """Which of `length` positions the rank holds when a sequence is cut over `world` devices.

    Args:
        length: tokens in the whole sequence.
        rank, world: which of how many.
        zigzag: rank r holds chunks r and 2 world - 1 - r of 2 world, so that causal work is even; otherwise
            chunk r of world.

    Returns:
        int64 [length / world]: positions, and the indices with which to cut tokens, or the positions of packed
        documents (`from_cu_seqlens(cu)[context_parallel(...)]`).

    Raises:
        RopewalkError: a length that does not divide into the chunks, a rank outside 0 .. world - 1.

    Example:
        >>> context_parallel(8, rank=0, world=2), context_parallel(8, rank=1, world=2)
        (tensor([0, 1, 6, 7]), tensor([2, 3, 4, 5]))
    """
    owner = "positions.context_parallel"
    whole(owner, "world", world, least=1)
    if whole(owner, "rank", rank, least=0) >= world:
        raise RopewalkError(f"{owner}: rank={rank} is not one of 0 .. {world - 1}")
    chunks = 2 * world if zigzag else world
    if whole(owner, "length", length, least=0) % chunks:
        raise RopewalkError(f"{owner}: length={length} does not divide into {chunks} chunks; pad it to a multiple")
    cut = arange(length).reshape(chunks, length // chunks)
    return torch.cat((cut[rank], cut[-1 - rank])) if zigzag else cut[rank]


def check_mask(owner: str, mask: Tensor) -> Tensor:
    """A mask of real tokens as bool [B, T]."""
    if mask.is_floating_point() or mask.is_complex() or mask.dim() != 2:
        raise RopewalkError(
            f"{owner}: a mask of {mask.dtype} {tuple(mask.shape)}; give [batch, tokens], bool or 0/1, 1 = real"
        )
    return mask != 0


def _starts(owner: str, cu_seqlens: Tensor) -> Tensor:
    integers = cu_seqlens.dim() == 1 and len(cu_seqlens) > 1 and not cu_seqlens.is_floating_point()
    if not integers or cu_seqlens[0] != 0 or (cu_seqlens.long().diff() < 0).any():  # uint8 would wrap
        raise RopewalkError(
            f"positions.{owner}: cu_seqlens is 0, then where each document ends, in order: integers [N + 1]"
        )
    return cu_seqlens[:-1].long()
