"""MrRoPE-Pro: progressive interpolation between the kept and the fully interpolated pairs."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ropewalk._checks import number, ordered, whole
from ropewalk.scaling._base import Scaled, Static, yarn_attention_factor


@dataclass(frozen=True)
class MrRoPE(Static):
    """theta_i / factor^(t (t + 1) / (n (n + 1))), t the number of pairs past the last kept one.

    `lo` is the last pair that turns more than `beta_fast` times within the native length, `hi` the first that
    turns less than `beta_slow` times, n = hi - lo and t = clip(i - lo, 0, n). YaRN's temperature.

    Args:
        factor: target length / native length, at least 1; 1 is the identity.
        original_length: the native length, in tokens.
        beta_fast, beta_slow: turns within the native length; beta_fast > beta_slow.
        attention_factor: what multiplies cos and sin; left out, it is 0.1 ln(factor) + 1.

    Source: arXiv 2601.22181, MrRoPE-Pro with bounds by turns; the authors' code rounds them as YaRN's does.
    """

    factor: float
    original_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None

    def __post_init__(self) -> None:
        number("MrRoPE", "factor", self.factor, least=1)
        whole("MrRoPE", "original_length", self.original_length, least=1)
        number("MrRoPE", "beta_slow", self.beta_slow, least=0, above=True)
        number("MrRoPE", "beta_fast", self.beta_fast, least=0, above=True)
        ordered("MrRoPE", ("beta_slow", self.beta_slow), ("beta_fast", self.beta_fast))
        if self.attention_factor is not None:
            number("MrRoPE", "attention_factor", self.attention_factor, least=0, above=True)

    def apply(self, inv_freq: Tensor, *, base: float, length: int | Tensor | None = None) -> Scaled:
        turns = self.original_length * inv_freq / (2 * math.pi)
        last_kept = (turns > self.beta_fast).sum() - 1
        first_full = (turns >= self.beta_slow).sum()
        span = (first_full - last_kept).clamp(min=1)
        step = (torch.arange(inv_freq.shape[-1], device=inv_freq.device) - last_kept).clamp(min=0)
        step = torch.minimum(step, span).to(inv_freq.dtype)
        divisor = self.factor ** (step * (step + 1) / (span * (span + 1)))
        factor = yarn_attention_factor(self.factor) if self.attention_factor is None else self.attention_factor
        return Scaled(inv_freq / divisor, factor)
