"""What the checks are made of: numbers to check on, and distances between answers."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor


def sample(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Normal numbers, the same in every run."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def apart(one: Tensor, other: Tensor) -> float:
    """The largest absolute difference; infinite where the shapes differ."""
    if one.shape != other.shape:
        return math.inf
    return (one.double() - other.double()).abs().max().item()


def relative(one: Tensor, other: Tensor) -> float:
    """The largest absolute difference as a share of the largest entry of `other`."""
    return apart(one, other) / other.double().abs().max().item()


def by_entry(one: Tensor, other: Tensor) -> float:
    """The largest difference of an entry as a share of that entry of `other`, none of which is 0."""
    return apart(one / other, torch.ones_like(other))


def worst(errors: Iterable[float]) -> float:
    """The largest, and NaN where one is."""
    return max(errors, key=lambda error: (math.isnan(error), error))


def plain_inv_freq(dim: int, base: float) -> Tensor:
    """base^(-2i / dim) by Python's own power, float64 [dim / 2]."""
    return torch.tensor([base ** (-2 * i / dim) for i in range(dim // 2)], dtype=torch.float64)
