"""Positions of tokens, always as integers."""

import torch
from torch import Tensor

from ropewalk._checks import whole


def arange(length: int, offset: int = 0, *, device: torch.device | str | None = None) -> Tensor:
    """Positions offset .. offset + length - 1, int64 [T]; `offset` is the number of tokens already cached.

    Example:
        >>> arange(3, offset=5)
        tensor([5, 6, 7])
    """
    whole("positions.arange", "length", length, least=0)
    whole("positions.arange", "offset", offset, least=0)
    return torch.arange(offset, offset + length, dtype=torch.int64, device=device)
