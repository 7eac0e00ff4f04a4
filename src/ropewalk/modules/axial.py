"""Rotary encodings whose positions have several coordinates: time, height and width, say."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ropewalk._checks import whole
from ropewalk._errors import RopewalkError
from ropewalk.functional.rotary import check_positions, cos_sin, inv_freq
from ropewalk.kernels import rotate
from ropewalk.kernels.rotate import Tables
from ropewalk.modules.rotary import NUMERICS, Rotary
from ropewalk.scaling import Scaled, Scaling


class AxialRotary(Rotary):
    """Each pair turns by its own frequency times the position on its own axis.

    That is all there is to M-RoPE, to the two-dimensional rotations of vision towers and to their kin: they differ in
    which pair looks at which axis. Text inside an M-RoPE model has equal coordinates, and turns as plain `Rotary` does.

    Args:
        head_dim: D, the width of a head.
        axes: [P], the axis of each pair, counted from 0.
        slots: [P], the place of each pair's frequency in the series of `grid`; 0 .. P-1 when left out.
        grid: the width of the head whose series of frequencies `slots` counts in; 2P when left out.
        groups: equal blocks of the head that pair their features within themselves (Gemma 4's towers: one an axis).
        base, layout, scaling, numerics: as in `Rotary`.

    Raises:
        RopewalkError: lists of different lengths, an axis below 0, more pairs than the head has.

    Example:
        >>> rope = AxialRotary(head_dim=8, axes=[0, 0, 1, 1], slots=[0, 1, 0, 1], grid=4)
        >>> cos, sin = rope.tables(torch.tensor([[0, 0, 1, 1], [0, 1, 0, 1]]))  # a 2 x 2 image: rows, columns
        >>> cos.shape
        torch.Size([4, 4])

    Source: Wang et al. 2024 (Qwen2-VL, arXiv 2409.12191), section 2.1, for M-RoPE; transformers' vision towers.
    """

    def __init__(
        self,
        head_dim: int,
        *,
        axes: Sequence[int],
        slots: Sequence[int] | None = None,
        grid: int | None = None,
        groups: int = 1,
        base: float = 10000.0,
        layout: str = "half",
        scaling: Scaling | None = None,
        numerics: str = "float64",
    ) -> None:
        pairs = len(axes)
        super().__init__(head_dim, base=base, rotary_dim=2 * pairs, layout=layout, scaling=scaling, numerics=numerics)
        self.axes = tuple(whole("AxialRotary", "axes", axis, least=0) for axis in axes)
        self.slots = tuple(range(pairs)) if slots is None else tuple(slots)
        self._coordinates = (max(self.axes) + 1,)
        self.groups = whole("AxialRotary", "groups", groups, least=1)
        if len(self.slots) != pairs:
            raise RopewalkError(f"AxialRotary: {len(self.slots)} slots for {pairs} pairs")
        series = inv_freq(2 * pairs if grid is None else grid, base, dtype=NUMERICS[numerics])
        self._unscaled = series[list(self.slots)]
        self._native = self.frequencies(None)

    def tables(self, positions: Tensor, length: int | Tensor | None = None) -> tuple[Tensor, Tensor]:
        """cos, sin for integer positions [A, T] or [A, B, T], a row for each axis: float32 [T, P] or [B, T, P]."""
        check_positions(positions)
        return self._tables(positions, self._native if length is None else self.frequencies(length))

    def _tables(self, positions: Tensor, scaled: Scaled) -> Tables:
        rows = self._coordinates[0]
        if positions.dim() < 2 or positions.shape[0] < rows:
            raise RopewalkError(
                f"AxialRotary: positions of shape {list(positions.shape)}; give {rows} rows, one an axis"
            )
        if scaled.inv_freq.numel() != len(self.axes):
            raise RopewalkError("AxialRotary: lengths that differ; give one length for all rows")
        own = positions[list(self.axes)]  # [P, ..., T]: each pair's own coordinate
        frequencies = scaled.inv_freq.view(-1, *[1] * (own.dim() - 1))
        cos, sin = cos_sin(own, frequencies, scaled.attention_factor)
        return cos[..., 0].movedim(0, -1), sin[..., 0].movedim(0, -1)

    def _turn(self, q: Tensor, k: Tensor, q_tables: Tables, k_tables: Tables) -> tuple[Tensor, Tensor]:
        if self.groups == 1:
            return super()._turn(q, k, q_tables, k_tables)
        blocks = [x.chunk(self.groups, dim=-1) for x in (q, k, *q_tables, *k_tables)]
        turned = [
            rotate(q, k, (q_cos, q_sin), (k_cos, k_sin), layout=self.layout)
            for q, k, q_cos, q_sin, k_cos, k_sin in zip(*blocks, strict=True)
        ]
        return torch.cat([q for q, _ in turned], dim=-1), torch.cat([k for _, k in turned], dim=-1)
