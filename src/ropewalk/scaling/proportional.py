"""p-RoPE: rotate the fast pairs only."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ropewalk._checks import number
from ropewalk._errors import RopewalkError
from ropewalk.scaling._base import Scaled, Static, powers


@dataclass(frozen=True)
class Proportional(Static):
    """Keep the first int(fraction x P) pairs and stop the others (frequency 0); then divide by `factor`.

    The exponents stay those of the full head, unlike a partial rotary width, which restarts them.

    Args:
        fraction: share of the pairs that rotate, in (0, 1].
        factor: divides the frequencies that remain, at least 1.

    Source: Barbero et al. 2024 (arXiv 2410.06205), p-RoPE; transformers `_compute_proportional_rope_parameters`.
    """

    fraction: float
    factor: float = 1.0

    def __post_init__(self) -> None:
        if number("Proportional", "fraction", self.fraction, least=0, above=True) > 1:
            raise RopewalkError(f"Proportional: fraction={self.fraction!r} is above 1; give a share of the pairs")
        number("Proportional", "factor", self.factor, least=1)

    def apply(self, inv_freq: Tensor, *, base: float, length: int | Tensor | None = None) -> Scaled:
        pairs = inv_freq.shape[-1]
        rotated = int(self.fraction * (2 * pairs) // 2)
        kept = 1.0 / powers(inv_freq, base, rotated)
        return Scaled(torch.cat((kept, inv_freq.new_zeros(pairs - rotated))) / self.factor, 1.0)
