"""YaRN: keep the fast pairs, interpolate the slow ones, and sharpen the attention."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ropewalk._checks import number, one_of, ordered, whole
from ropewalk._errors import RopewalkError
from ropewalk.scaling._base import Scaled, Static, mscale, powers


@dataclass(frozen=True)
class YaRN(Static):
    """theta_i' = (1 - kept_i) theta_i / factor + kept_i theta_i, and a temperature on cos and sin.

    Pairs that turn more than `beta_fast` times within the native length are kept, those that turn less than
    `beta_slow` times are interpolated; between them `kept` falls along a ramp. The paper and its code
    differ there: the paper's ramp is linear in turns, the code's (which transformers and vLLM share) is
    linear in the pair index, that is in the logarithm of turns.

    Args:
        factor: target length / native length, at least 1.
        original_length: the native length, in tokens.
        beta_fast, beta_slow: turns within the native length; beta_fast > beta_slow.
        ramp: "code" or "paper".
        truncate: round the ends of the code's ramp outwards to whole pairs, as the released code does.
        attention_factor: what multiplies cos and sin; left out, it is 0.1 ln(factor) + 1.
        mscale, mscale_all_dim: DeepSeek's form, (0.1 mscale ln f + 1) / (0.1 mscale_all_dim ln f + 1). Left out
            they are 1 and 0, as in DeepSeek's code. transformers takes a 0 for "left out"; here 0 means 0.

    Raises:
        RopewalkError: a value outside these ranges; both attention_factor and an mscale.

    Example:
        >>> import torch
        >>> round(YaRN(factor=4.0, original_length=4096).apply(torch.ones(32), base=1e4).attention_factor, 4)
        1.1386

    Source: Peng et al. 2023 (arXiv 2309.00071), equations 18 to 22, and the authors' code.
    """

    factor: float
    original_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    ramp: str = "code"
    truncate: bool = True
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None

    def __post_init__(self) -> None:
        number("YaRN", "factor", self.factor, least=1)
        whole("YaRN", "original_length", self.original_length, least=1)
        number("YaRN", "beta_slow", self.beta_slow, least=0, above=True)
        number("YaRN", "beta_fast", self.beta_fast, least=0, above=True)
        ordered("YaRN", ("beta_slow", self.beta_slow), ("beta_fast", self.beta_fast))
        one_of("YaRN", "ramp", self.ramp, ("code", "paper"))
        if self.attention_factor is not None:
            number("YaRN", "attention_factor", self.attention_factor, least=0, above=True)
            if self.mscale is not None or self.mscale_all_dim is not None:
                raise RopewalkError("YaRN: attention_factor and mscale set the same thing; give one of them")
        for name in ("mscale", "mscale_all_dim"):
            if getattr(self, name) is not None:
                number("YaRN", name, getattr(self, name), least=0)

    def apply(self, inv_freq: Tensor, *, base: float, length: int | Tensor | None = None) -> Scaled:
        kept = self._kept_by_turns(inv_freq) if self.ramp == "paper" else 1 - self._ramp_by_index(inv_freq, base)
        wavelengths = powers(inv_freq, base)
        scaled = 1.0 / (self.factor * wavelengths) * (1 - kept) + 1.0 / wavelengths * kept
        return Scaled(scaled, self._attention_factor())

    def _attention_factor(self) -> float:
        if self.attention_factor is not None:
            return self.attention_factor
        above = 1.0 if self.mscale is None else self.mscale
        below = 0.0 if self.mscale_all_dim is None else self.mscale_all_dim
        return mscale(self.factor, above) / mscale(self.factor, below)

    def _kept_by_turns(self, inv_freq: Tensor) -> Tensor:
        turns = self.original_length * inv_freq / (2 * math.pi)
        return ((turns - self.beta_slow) / (self.beta_fast - self.beta_slow)).clamp(0, 1)

    def _ramp_by_index(self, inv_freq: Tensor, base: float) -> Tensor:
        pairs = inv_freq.shape[-1]
        low = self._pair_of(self.beta_fast, pairs, base)
        high = self._pair_of(self.beta_slow, pairs, base)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, 2 * pairs - 1)
        if low == high:
            high += 0.001  # the released code's guard: a step where the ramp has no width
        index = torch.arange(pairs, dtype=inv_freq.dtype, device=inv_freq.device)
        return ((index - low) / (high - low)).clamp(0, 1)

    def _pair_of(self, turns: float, pairs: int, base: float) -> float:
        """The (fractional) index of the pair that turns so often within the native length."""
        return 2 * pairs * math.log(self.original_length / (turns * 2 * math.pi)) / (2 * math.log(base))
