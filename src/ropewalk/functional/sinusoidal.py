"""Sinusoidal position encoding."""

import torch
from torch import Tensor

from ropewalk._checks import one_of
from ropewalk.functional.rotary import cos_sin, inv_freq

ORDERS = ("interleaved", "sin_cos", "cos_sin")


def sinusoidal(positions: Tensor, dim: int, *, base: float = 10000.0, order: str = "interleaved") -> Tensor:
    """PE[p, 2k] = sin(p w_k), PE[p, 2k + 1] = cos(p w_k), w_k = base^(-2k / dim).

    Args:
        positions: integers [..., T].
        dim: width, even.
        base: the base of the frequencies.
        order: "interleaved" as in the paper, or all sines first ("sin_cos") or all cosines first ("cos_sin").

    Returns:
        float32 [..., T, dim], exact to float32 rounding.

    Raises:
        RopewalkError: an odd dim, an unknown order, positions that are not integers.

    Example:
        >>> sinusoidal(torch.tensor([0]), 4).tolist()
        [[0.0, 1.0, 0.0, 1.0]]

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.5.
    """
    one_of("sinusoidal", "order", order, ORDERS)
    cos, sin = cos_sin(positions, inv_freq(dim, base).to(positions.device))
    if order == "interleaved":
        return torch.stack((sin, cos), dim=-1).flatten(-2)
    return torch.cat((sin, cos) if order == "sin_cos" else (cos, sin), dim=-1)
