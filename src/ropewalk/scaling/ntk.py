"""The NTK family: reach a longer context by a larger base, which spares the fast pairs."""

import math
from dataclasses import dataclass

from torch import Tensor

from ropewalk._checks import number, whole
from ropewalk._errors import RopewalkError
from ropewalk.scaling._base import LengthDependent, Scaled, Static, powers, stretch


def _exponent(owner: str, inv_freq: Tensor) -> float:
    """d / (d - 2): with it the last pair is slowed by exactly the factor."""
    dim = 2 * inv_freq.shape[-1]
    if dim <= 2:
        raise RopewalkError(f"{owner}: a rotary width of {dim} has one pair only, whose frequency no base can change")
    return dim / (dim - 2)


@dataclass(frozen=True)
class NTK(Static):
    """NTK-aware scaling: base' = base x factor^(d / (d - 2)).

    Only the last pair is slowed by the whole factor; other pairs that never finish a turn within the native
    length are slowed by less, so that the reach falls short of factor x native: see NTKCritical.

    Args:
        factor: target length / native length, at least 1; 1 is the identity.

    Source: bloc97 2023; as printed in YaRN (arXiv 2309.00071), equations 15 and 16.
    """

    factor: float

    def __post_init__(self) -> None:
        number("NTK", "factor", self.factor, least=1)

    def base(self, inv_freq: Tensor, base: float) -> float:
        """The base that this scaling amounts to: all that a checkpoint must state."""
        return base * self.factor ** _exponent("NTK", inv_freq)

    def apply(self, inv_freq: Tensor, *, base: float, length: int | Tensor | None = None) -> Scaled:
        return Scaled(1.0 / powers(inv_freq, self.base(inv_freq, base)), 1.0)


@dataclass(frozen=True)
class NTKCritical(Static):
    """NTK at the critical dimension: base' = base^(ln(L' / 2 pi) / ln(L / 2 pi)), L' = factor x L.

    The smallest base that slows by `factor` the pair which just finishes one turn within the native length,
    and by more every slower pair.

    Args:
        factor: target length / native length, at least 1; 1 is the identity.
        original_length: the native length L, in tokens; above 2 pi.

    Source: Liu et al. 2023 (arXiv 2310.05209), theorem 1; called "NTK" in LongRoPE2 (arXiv 2502.20082).
    """

    factor: float
    original_length: int

    def __post_init__(self) -> None:
        number("NTKCritical", "factor", self.factor, least=1)
        whole("NTKCritical", "original_length", self.original_length, least=7)

    def base(self, inv_freq: Tensor, base: float) -> float:
        """The base that this scaling amounts to: all that a checkpoint must state."""
        turns = self.original_length / (2 * math.pi)
        return base ** (math.log(self.factor * turns) / math.log(turns))

    def apply(self, inv_freq: Tensor, *, base: float, length: int | Tensor | None = None) -> Scaled:
        return Scaled(1.0 / powers(inv_freq, self.base(inv_freq, base)), 1.0)


@dataclass(frozen=True)
class DynamicNTK(LengthDependent):
    """NTK whose base grows with the sequence: base' = base x (factor L'/L - (factor - 1))^(d / (d - 2)).

    The identity up to the native length L. `factor` is not target/native: 1 reaches the length L' asked for,
    and a larger one overshoots it. transformers' `dynamic`, as a pure function of the length.

    Args:
        factor: at least 1.
        original_length: the native length L, in tokens.

    Source: emozilla 2023; transformers `_compute_dynamic_ntk_parameters`.
    """

    factor: float
    original_length: int

    def __post_init__(self) -> None:
        number("DynamicNTK", "factor", self.factor, least=1)
        whole("DynamicNTK", "original_length", self.original_length, least=1)

    def apply(self, inv_freq: Tensor, *, base: float, length: int | Tensor | None = None) -> Scaled:
        reach = self.factor * stretch(length, self.original_length, inv_freq.device) - (self.factor - 1)
        grown = (base * reach ** _exponent("DynamicNTK", inv_freq)).to(inv_freq)
        return Scaled(1.0 / powers(inv_freq, grown), 1.0)
