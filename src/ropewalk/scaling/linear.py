"""Position interpolation: every frequency divided by one number."""

from dataclasses import dataclass

from torch import Tensor

from ropewalk._checks import number, whole
from ropewalk.scaling._base import LengthDependent, Scaled, Static, stretch


@dataclass(frozen=True)
class Linear(Static):
    """Position interpolation (PI): theta_i / factor, the same as dividing every position.

    Args:
        factor: target length / native length, at least 1; 1 is the identity.

    Example:
        >>> import torch
        >>> Linear(factor=4.0).apply(torch.tensor([1.0, 0.1]), base=100.0).inv_freq
        tensor([0.2500, 0.0250])

    Source: Chen et al. 2023 (arXiv 2306.15595), equation 4.
    """

    factor: float

    def __post_init__(self) -> None:
        number("Linear", "factor", self.factor, least=1)

    def apply(self, inv_freq: Tensor, *, base: float, length: int | Tensor | None = None) -> Scaled:
        return Scaled(inv_freq / self.factor, 1.0)


@dataclass(frozen=True)
class DynamicLinear(LengthDependent):
    """Length-dependent interpolation: theta_i / max(1, length / original_length).

    The position interpolation of the textbooks: the identity up to the native length, and past it every
    position is squeezed back into the native range.

    Args:
        original_length: the native length, in tokens.
    """

    original_length: int

    def __post_init__(self) -> None:
        whole("DynamicLinear", "original_length", self.original_length, least=1)

    def apply(self, inv_freq: Tensor, *, base: float, length: int | Tensor | None = None) -> Scaled:
        squeeze = stretch(length, self.original_length, inv_freq.device).to(inv_freq)
        return Scaled(inv_freq / squeeze, 1.0)
