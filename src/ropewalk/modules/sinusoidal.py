"""The sinusoidal encoding as a module."""

from typing import Any

import torch
from torch import Tensor

from ropewalk import positions as _positions
from ropewalk._checks import whole
from ropewalk._errors import RopewalkError
from ropewalk.functional.sinusoidal import sinusoidal
from ropewalk.modules.encoding import Added

NAME = "pe"  # of the table in a state_dict, as the textbook module calls it


class Sinusoidal(Added):
    """x + PE(position), computed from the positions: nothing is trained, and no length is too long.

    The table that a textbook module keeps in its state_dict is a copy of what the formula says. A state_dict with
    that table ("pe", of any length and with axes of size one) or without it loads strictly either way; one that
    holds another table than this encoding's is refused, since it would otherwise be ignored in silence.

    Args:
        dim: width.
        order, base, grid: see `functional.sinusoidal`.
        persistent: write the table into the state_dict, for those who read it there.
        max_length: how many rows of it to write.

    Raises:
        RopewalkError: an unknown order or grid, a dim below 1; on loading, a table of other numbers.

    Example:
        >>> Sinusoidal(512)(torch.zeros(1, 10, 512)).shape
        torch.Size([1, 10, 512])

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.5. There the token's vector is multiplied by sqrt(dim)
    first (section 3.4); that is left to the model.
    """

    def __init__(
        self,
        dim: int,
        order: str = "interleaved",
        *,
        base: float = 10000.0,
        grid: str = "vaswani",
        persistent: bool = False,
        max_length: int = 5000,
    ) -> None:
        super().__init__()
        self.dim, self.order, self.base, self.grid = dim, order, base, grid
        self.persistent = persistent
        self.max_length = whole("Sinusoidal", "max_length", max_length, least=1)
        self.rows(_positions.arange(1, device="cpu"))  # refuses what cannot be computed

    def rows(self, positions: Tensor) -> Tensor:
        """float32 [..., T, dim]."""
        return sinusoidal(positions, self.dim, base=self.base, order=self.order, grid=self.grid)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.persistent:
            destination[prefix + NAME] = self.rows(_positions.arange(self.max_length, device="cpu"))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *arguments: Any) -> None:
        table = state_dict.pop(prefix + NAME, None)
        if table is not None and not self._is_ours(table):
            raise RopewalkError(
                f"Sinusoidal: the table {NAME!r} that was given, {tuple(table.shape)}, is not that of dim={self.dim}, "
                f"order={self.order!r}, base={self.base:g}, grid={self.grid!r}; build the module that it came from"
            )
        super()._load_from_state_dict(state_dict, prefix, *arguments)

    def _is_ours(self, table: Tensor) -> bool:
        if not table.is_floating_point() or not table.dim() or table.shape[-1] != self.dim:
            return False
        rows = table.detach().cpu().float().reshape(-1, self.dim)
        # a textbook table is made in float32 throughout: off by some 3e-8 of the position's angle
        slack = 2 * torch.finfo(table.dtype).eps + 3e-7 * len(rows)
        return torch.allclose(rows, self.rows(_positions.arange(len(rows), device="cpu")), rtol=0, atol=slack)

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        return f"{self.dim}, order={self.order!r}, base={self.base:g}, grid={self.grid!r}"
