"""What every scaling is: a pure function from rotary frequencies to rotary frequencies and one factor."""

import math
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor


class Scaled(NamedTuple):
    """Frequencies after a scaling.

    Attributes:
        inv_freq: [P], or [..., P] when a length-dependent scaling was asked for a tensor of lengths.
        attention_factor: what multiplies cos and sin; logits grow by its square.
    """

    inv_freq: Tensor
    attention_factor: float


@runtime_checkable
class Scaling(Protocol):
    """A context-extension method: a frozen dataclass of its own parameters and nothing else."""

    @property
    def depends_on_length(self) -> bool:
        """Whether the frequencies change with the length of the sequence."""
        ...

    def apply(self, inv_freq: Tensor, *, base: float, length: int | Tensor | None = None) -> Scaled:
        """The scaled frequencies, in the dtype of `inv_freq`.

        Args:
            inv_freq: [P], the geometric series of `base`.
            base: the base that made `inv_freq`.
            length: tokens in the sequence; a tensor [...] for one length a row. None means at most native.
        """
        ...


class Static:
    """Mixed into the methods that ignore `length`."""

    depends_on_length = False


class LengthDependent:
    """Mixed into the methods whose frequencies change with `length`."""

    depends_on_length = True


def powers(inv_freq: Tensor, base: float | Tensor, first: int | None = None) -> Tensor:
    """base^(2i / d) of the `first` pairs, or of all, in the dtype and device of `inv_freq`.

    Methods whose reference divides by such powers start from them and not from `inv_freq`: only the same
    order of roundings gives the same float32 bits. So does only the same number of pairs, since the
    vectorised power and the one for what is left over round differently.
    """
    pairs = inv_freq.shape[-1]
    exponents = torch.arange(pairs if first is None else first, device=inv_freq.device).mul(2).to(inv_freq.dtype)
    exponents = exponents / (2 * pairs)
    return base**exponents


def stretch(length: int | Tensor | None, original_length: int, device: torch.device) -> Tensor:
    """How many times `length` exceeds the native length, at least 1: float64 [..., 1].

    `device` is the frequencies' own: the default device may be "meta", where a number has no value.
    """
    asked = torch.as_tensor(
        original_length if length is None else length, device=device
    ).double()  # moved, then widened
    return (asked / original_length).clamp(min=1.0)[..., None]


def yarn_attention_factor(factor: float) -> float:
    """YaRN's temperature on cos and sin, 0.1 ln(factor) + 1 (arXiv 2309.00071, equation 22)."""
    return mscale(factor, 1.0)


def longrope_attention_factor(factor: float, original_length: int) -> float:
    """LongRoPE's, sqrt(1 + ln(factor) / ln(original_length)): in Microsoft's code and in transformers only."""
    return math.sqrt(1 + math.log(factor) / math.log(original_length))


def mscale(factor: float, coefficient: float) -> float:
    """DeepSeek's generalisation of it, 0.1 coefficient ln(factor) + 1; 1 for a factor of at most 1."""
    return 0.1 * coefficient * math.log(factor) + 1.0 if factor > 1 else 1.0
