"""Positions of tokens, always as integers: cached, padded, packed, or cut over devices."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ropewalk._checks import number, one_of, whole
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


def randomized(
    length: int,
    longest: int,
    *,
    rows: int | None = None,
    generator: torch.Generator | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """`length` distinct positions of 0 .. longest - 1, drawn evenly and in order: a model trained on them has met all.

    Every encoding takes them, since positions decide. The paper draws at test time too.

    Args:
        length: T.
        longest: of how many positions they are drawn: how far the model is to read.
        rows: B, a draw for each row; left out, one draw.
        generator: whose draws they are; torch's own where left out.
        device: where they are put; they are drawn on the generator's, else on the CPU.

    Returns:
        int64 [T], or [B, T].

    Raises:
        RopewalkError: more positions than there are.

    Example:
        >>> randomized(4, 100, generator=torch.Generator().manual_seed(0))
        tensor([19, 44, 90, 93])

    Source: Ruoss et al. 2023 (arXiv 2305.16843), section 3.
    """
    owner = "positions.randomized"
    if whole(owner, "length", length, least=0) > whole(owner, "longest", longest, least=0):
        raise RopewalkError(f"{owner}: length={length} distinct positions of longest={longest}; raise longest")
    count = 1 if rows is None else whole(owner, "rows", rows, least=0)
    home = torch.device("cpu") if generator is None else generator.device
    drawn = torch.empty(count, length, dtype=torch.int64, device=home)
    for row in drawn:
        row.copy_(torch.randperm(longest, generator=generator, device=home)[:length].sort().values)
    return (drawn[0] if rows is None else drawn).to(home if device is None else device)


def grid(*sizes: int, device: torch.device | str | None = None) -> Tensor:
    """The coordinates of a grid's cells, the last axis fastest: int64 [A, T], `Axial`'s positions.

    Example:
        >>> grid(2, 3)
        tensor([[0, 0, 0, 1, 1, 1],
                [0, 1, 2, 0, 1, 2]])
    """
    edges = [arange(whole("positions.grid", "sizes", size, least=0), device=device) for size in sizes]
    if not edges:
        raise RopewalkError("positions.grid: no sizes; give one for each axis, such as grid(height, width)")
    return torch.stack(torch.meshgrid(*edges, indexing="ij")).flatten(1)


def mrope(
    parts: Sequence[int | Sequence[float]],
    *,
    merge: int = 2,
    offset: int = 0,
    after: str = "extent",
    device: torch.device | str | None = None,
) -> Tensor:
    """Time, height and width of each token of text, images and video: int64 [3, T], `MRoPE`'s positions.

    Text counts one up on all three. An image or video of t (h / merge) (w / merge) tokens stands where the text has
    come to: its cells count from there, each on its own axis. Whoever decodes gives `offset`.

    Args:
        parts: in order, an int for so many tokens of text, and (t, h, w) for an image or video, in patches as
            transformers' `image_grid_thw`. (t, h, w, interval) spaces the frames of a video: Qwen2.5-VL's is
            `tokens_per_second * second_per_grid`, rounded down for each frame. Qwen3-VL gives each frame as a part of
            its own, with text between.
        merge: patches that become one token, along height and width (`spatial_merge_size`).
        offset: the position of the first token; after `ids` it is `int(ids.max()) + 1`, as in transformers.
        after: where what follows an image or video goes on: "extent", max(h, w) / merge after where it began
            (transformers 5), or "largest", one past its largest position (the paper, transformers 4, vLLM). They
            differ for a video whose time outruns its height and width, which "extent" lets text overlap.

    Raises:
        RopewalkError: a part of neither kind, a height or width that `merge` does not divide.

    Example:
        >>> mrope([2, (1, 4, 6), 1])
        tensor([[0, 1, 2, 2, 2, 2, 2, 2, 5],
                [0, 1, 2, 2, 2, 3, 3, 3, 5],
                [0, 1, 2, 3, 4, 2, 3, 4, 5]])

    Source: Wang et al. 2024 (Qwen2-VL, arXiv 2409.12191), section 2.1; Qwen2.5-VL (arXiv 2502.13923) for intervals.
    """
    owner = "positions.mrope"
    whole(owner, "merge", merge, least=1)
    one_of(owner, "after", after, ("extent", "largest"))
    now, pieces = whole(owner, "offset", offset, least=0), [torch.empty(3, 0, dtype=torch.int64, device=device)]
    for part in parts:
        cells, extent = _cells(part, merge, device)
        pieces.append(cells + now)
        now += extent if after == "extent" or not cells.numel() else int(cells.max()) + 1
    return torch.cat(pieces, dim=1)


def _cells(part: int | Sequence[float], merge: int, device: torch.device | str | None) -> tuple[Tensor, int]:
    """[3, tokens] from 0 on, and how far text or a picture reaches."""
    owner = "positions.mrope"
    if not isinstance(part, list | tuple):
        length = whole(owner, "parts", part, least=0)
        return arange(length, device=device).expand(3, -1), length
    if len(part) not in (3, 4):
        raise RopewalkError(
            f"{owner}: a part {part!r}; give tokens of text, or (t, h, w) in patches, or with an interval"
        )
    t, h, w = (whole(owner, "parts", size, least=1) for size in part[:3])
    if h % merge or w % merge:
        raise RopewalkError(
            f"{owner}: {h} x {w} patches are not whole squares of merge={merge}; give h and w in patches"
        )
    cells = grid(t, h // merge, w // merge, device=device)
    if len(part) == 4:
        cells[0] = (cells[0] * number(owner, "interval", part[3], least=0)).long()
    return cells, max(h, w) // merge


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
