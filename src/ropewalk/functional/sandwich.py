"""The inner products of sinusoidal position vectors, by distance."""

import torch
from torch import Tensor

from ropewalk._checks import number, whole
from ropewalk._errors import RopewalkError
from ropewalk.functional import rotary


def sinusoidal_product(relative: Tensor, dim: int = 128, *, base: float = 10000.0) -> Tensor:
    """PE(m) . PE(n) of two sinusoidal vectors, which is a function of n - m: the sum of cos((n - m) base^(-2k / dim)).

    Args:
        relative: n - m, integers of any shape.
        dim: the width of the vectors, even.
        base: of their frequencies.

    Returns:
        float32, shaped like `relative`: dim / 2 at distance 0. Angles and the sum are float64, rounded once.

    Raises:
        RopewalkError: an odd `dim`, a base that is not above 1, distances that are not integers.

    Example:
        >>> [round(x, 2) for x in sinusoidal_product(torch.tensor([0, 1, -16])).tolist()]
        [64.0, 62.09, 39.7]

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.5; Chi et al. 2022 (arXiv 2212.10356), equation 5.
    """
    rotary.check_positions(relative)
    number("sinusoidal_product", "base", base, least=1, above=True)
    if whole("sinusoidal_product", "dim", dim, least=2) % 2:
        raise RopewalkError(f"sinusoidal_product: dim={dim} is odd; its sines and cosines come in pairs")
    home = relative.device
    exact = (relative.cpu() if home.type in rotary.WITHOUT_FLOAT64 else relative).double()
    total = torch.zeros_like(exact)
    for pair in range(dim // 2):  # one at a time: all at once would be dim / 2 times the memory
        total = total + torch.cos(exact * base ** (-2 * pair / dim))
    return total.float().to(home)
