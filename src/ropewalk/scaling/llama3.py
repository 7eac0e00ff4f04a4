"""Llama 3.1's bands."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ropewalk._checks import number, ordered, whole
from ropewalk.scaling._base import Scaled, Static


@dataclass(frozen=True)
class Llama3(Static):
    """Three bands by wavelength w, with L the native length.

    w < L / high_freq_factor is kept, w > L / low_freq_factor is divided by `factor`, and between them
    theta' = (1 - m) theta / factor + m theta with m = (L / w - low) / (high - low): linear in turns, like
    YaRN's paper with betas 4 and 1. No temperature.

    Args:
        factor: at least 1; 1 is the identity.
        original_length: the native length L, in tokens.
        low_freq_factor, high_freq_factor: the ends of the middle band, in turns; high at least low, and where they are
            equal the middle band is a step (Llama 4 Scout).

    Source: Meta 2024, llama-models `apply_scaling`; transformers `_compute_llama3_parameters`.
    """

    factor: float
    original_length: int
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0

    def __post_init__(self) -> None:
        number("Llama3", "factor", self.factor, least=1)
        whole("Llama3", "original_length", self.original_length, least=1)
        number("Llama3", "low_freq_factor", self.low_freq_factor, least=0, above=True)
        number("Llama3", "high_freq_factor", self.high_freq_factor, least=0, above=True)
        low, high = (("low_freq_factor", self.low_freq_factor), ("high_freq_factor", self.high_freq_factor))
        ordered("Llama3", low, high, equal=True)

    def apply(self, inv_freq: Tensor, *, base: float, length: int | Tensor | None = None) -> Scaled:
        low, high = self.low_freq_factor, self.high_freq_factor
        wavelength = 2 * math.pi / inv_freq
        slowed = torch.where(wavelength > self.original_length / low, inv_freq / self.factor, inv_freq)
        mix = (self.original_length / wavelength - low) / (high - low)
        blended = (1 - mix) * slowed / self.factor + mix * slowed
        kept = wavelength < self.original_length / high
        outside = kept | (wavelength > self.original_length / low)
        return Scaled(torch.where(outside, slowed, blended), 1.0)
