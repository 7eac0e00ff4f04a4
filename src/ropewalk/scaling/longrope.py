"""LongRoPE: one searched divisor for each pair, in two sets."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ropewalk._checks import number, whole
from ropewalk._errors import RopewalkError
from ropewalk.scaling._base import LengthDependent, Scaled, longrope_attention_factor, powers


@dataclass(frozen=True)
class LongRoPE(LengthDependent):
    """theta_i / short_factor[i] up to the native length, theta_i / long_factor[i] past it.

    The temperature is one for both sets: sqrt(1 + ln(factor) / ln(original_length)).

    Args:
        short_factor, long_factor: P positive numbers each.
        original_length: the native length, in tokens; above 1.
        factor: target length / native length, from which the temperature follows; left out, it is 1.
        attention_factor: the temperature itself, in place of the formula.

    Raises:
        RopewalkError: lists of different or wrong lengths, a divisor that is not above 0.

    Source: Ding et al. 2024 (arXiv 2402.13753); the temperature is in Microsoft's code and in transformers only.
    """

    short_factor: Sequence[float]
    long_factor: Sequence[float]
    original_length: int
    factor: float | None = None
    attention_factor: float | None = None

    def __post_init__(self) -> None:
        whole("LongRoPE", "original_length", self.original_length, least=2)
        for name in ("short_factor", "long_factor"):
            values = getattr(self, name)
            if isinstance(values, str) or not isinstance(values, Sequence) or not values:
                raise RopewalkError(f"LongRoPE: {name}={values!r} is not a list of numbers, one for each pair")
            checked = tuple(number("LongRoPE", name, value, least=0, above=True) for value in values)
            object.__setattr__(self, name, checked)
        if len(self.short_factor) != len(self.long_factor):
            short, long = len(self.short_factor), len(self.long_factor)
            raise RopewalkError(
                f"LongRoPE: short_factor has {short} numbers and long_factor {long}; give as many of each"
            )
        if self.factor is not None:
            number("LongRoPE", "factor", self.factor, least=1)
        if self.attention_factor is not None:
            number("LongRoPE", "attention_factor", self.attention_factor, least=0, above=True)

    def apply(self, inv_freq: Tensor, *, base: float, length: int | Tensor | None = None) -> Scaled:
        pairs = inv_freq.shape[-1]
        if len(self.long_factor) != pairs:
            raise RopewalkError(
                f"LongRoPE: long_factor has {len(self.long_factor)} numbers for {pairs} pairs; give {pairs}"
            )
        short, long = (
            torch.tensor(factors, dtype=inv_freq.dtype, device=inv_freq.device)
            for factors in (self.short_factor, self.long_factor)
        )
        asked = torch.as_tensor(0 if length is None else length, device=inv_freq.device)[..., None]
        divisors = torch.where(asked > self.original_length, long, short)
        return Scaled(1.0 / (divisors * powers(inv_freq, base)), self._attention_factor())

    def _attention_factor(self) -> float:
        if self.attention_factor is not None:
            return self.attention_factor
        return longrope_attention_factor(self.factor or 1.0, self.original_length)
