"""YaRN whose factor follows the sequence."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ropewalk._checks import whole
from ropewalk._errors import RopewalkError
from ropewalk.scaling._base import LengthDependent, Scaled
from ropewalk.scaling.yarn import YaRN


@dataclass(frozen=True)
class DynamicYaRN(LengthDependent):
    """YaRN of the factor max(1, length / original_length), its temperature included.

    The identity up to the native length. There is one temperature for a batch, so that rows of different lengths
    are refused. No checkpoint states it: readers have no name for it, and rotated keys in a cache would be stale.

    Args:
        original_length: the native length, in tokens.
        beta_fast, beta_slow: turns within the native length; beta_fast > beta_slow.

    Raises:
        RopewalkError: lengths of several rows that differ.

    Source: Peng et al. 2023 (arXiv 2309.00071), section 3.3, Dynamic Scaling, with the code's ramp.
    """

    original_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0

    def __post_init__(self) -> None:
        whole("DynamicYaRN", "original_length", self.original_length, least=1)
        self._of(1.0)

    def apply(self, inv_freq: Tensor, *, base: float, length: int | Tensor | None = None) -> Scaled:
        asked = torch.as_tensor(self.original_length if length is None else length, device=inv_freq.device)
        if asked.numel() and asked.min() != asked.max():
            raise RopewalkError(
                f"DynamicYaRN: rows of {asked.min()} to {asked.max()} tokens; its temperature is one for a batch: give "
                "one length, or run rows of one length together"
            )
        longest = int(asked.max()) if asked.numel() else self.original_length
        scaled = self._of(max(1.0, longest / self.original_length)).apply(inv_freq, base=base)
        return Scaled(scaled.inv_freq.expand(*asked.shape, -1), scaled.attention_factor)

    def _of(self, factor: float) -> YaRN:
        return YaRN(factor, self.original_length, self.beta_fast, self.beta_slow)
