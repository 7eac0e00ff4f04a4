"""Rotary over a grid of tokens, such as the patches of an image."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ropewalk._checks import one_of, whole
from ropewalk._errors import RopewalkError
from ropewalk.functional.rotary import inv_freq as series_of
from ropewalk.modules.axes import AXIAL, axial_pairs
from ropewalk.modules.axial import AxialRotary
from ropewalk.scaling import Scaled, Scaling


class Axial(AxialRotary):
    """Rotary over a grid: an equal share of the pairs for each axis, which may be scaled by itself.

    Positions are [A, T] or [A, B, T], a row for each axis: `positions.grid(height, width)`. A model that was trained at
    16 x 16 patches and reads 32 x 24 takes `scaling=[Linear(factor=2.0), Linear(factor=1.5)]`.

    `attend` takes one position a token, so turn first: `q, k = rope(q, k, where)`, and then
    `attend(q, k, v, causal=False)`.

    Args:
        head_dim: D; each axis has D // (2 axes) pairs, and features beyond those pass through.
        axes: A, how many coordinates a position has.
        order: "blocks" (Qwen2-VL's towers: the first axis's pairs, then the next's), "reversed" (the last axis first),
            "alternating" (Kimi's: all axes at each frequency, the last first), "pixtral" (axes take turns at the
            frequencies of the whole head).
        scaling: of every axis, or a list of one for each, None for none. Each sees the whole series of its axis.
        base, layout, numerics: as in `Rotary`.

    Raises:
        RopewalkError: a head without a pair for each axis, a list of another length, a length-dependent scaling (an
            axis has no length), scalings of different attention factors.

    Example:
        >>> from ropewalk import Linear, positions
        >>> rope = Axial(64, scaling=[Linear(factor=2.0), None])
        >>> q, k = rope(torch.ones(1, 4, 6, 64), torch.ones(1, 4, 6, 64), positions.grid(2, 3))
        >>> q.shape
        torch.Size([1, 4, 6, 64])

    Source: transformers' vision towers; Heo et al. 2024 (arXiv 2403.13298), whose axial form is base=100.0 and
    layout="interleaved".
    """

    def __init__(
        self,
        head_dim: int,
        axes: int = 2,
        *,
        order: str = "blocks",
        base: float = 10000.0,
        layout: str = "half",
        scaling: Scaling | Sequence[Scaling | None] | None = None,
        numerics: str = "float64",
    ) -> None:
        count = whole("Axial", "axes", axes, least=1)
        if whole("Axial", "head_dim", head_dim, least=2) < 2 * count:
            raise RopewalkError(
                f"Axial: head_dim={head_dim} has no pair for each of {count} axes; give {2 * count} or more"
            )
        own, slots, grid = axial_pairs(one_of("Axial", "order", order, AXIAL), int(head_dim), count)
        super().__init__(
            head_dim,
            axes=own,
            slots=slots,
            grid=grid,
            base=base,
            layout=layout,
            scaling=_by_axis(scaling, own, slots, grid, count),
            numerics=numerics,
        )


@dataclass(frozen=True)
class ByAxis:
    """A scaling for each axis: it is given the whole series of frequencies, of which each pair then has one."""

    scalings: tuple[Scaling | None, ...]
    axes: tuple[int, ...]
    slots: tuple[int, ...]
    grid: int
    depends_on_length = False

    def apply(self, inv_freq: Tensor, *, base: float, length: int | Tensor | None = None) -> Scaled:
        """`inv_freq` gives the dtype alone."""
        series = series_of(self.grid, base, dtype=inv_freq.dtype)
        scaled = [Scaled(series, 1.0) if one is None else one.apply(series, base=base) for one in self.scalings]
        if len({one.attention_factor for one in scaled}) > 1:
            factors = ", ".join(f"{one.attention_factor:g}" for one in scaled)
            raise RopewalkError(
                f"Axial: the axes' attention factors are {factors}, and logits have one temperature; give all scalings "
                "the same, such as attention_factor=1.0"
            )
        by_axis = torch.stack([one.inv_freq for one in scaled])
        return Scaled(by_axis[list(self.axes), list(self.slots)], scaled[0].attention_factor)

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.scalings))}]"


def _by_axis(
    given: Scaling | Sequence[Scaling | None] | None,
    axes: tuple[int, ...],
    slots: tuple[int, ...],
    grid: int,
    count: int,
) -> ByAxis | None:
    if given is None:
        return None
    scalings: tuple[Any, ...] = tuple(given) if isinstance(given, list | tuple) else (given,) * count
    if len(scalings) != count or not all(one is None or isinstance(one, Scaling) for one in scalings):
        raise RopewalkError(f"Axial: scaling={given!r}; give one scaling, or a list of one for each of {count} axes")
    if any(one is not None and one.depends_on_length for one in scalings):
        raise RopewalkError(
            f"Axial: scaling={given!r} depends on a length, which an axis has not; give one that does not"
        )
    return ByAxis(scalings, axes, slots, grid)
