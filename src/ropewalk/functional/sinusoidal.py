"""Sinusoidal position encoding."""

import torch
from torch import Tensor

from ropewalk._checks import number, one_of, whole
from ropewalk._errors import RopewalkError
from ropewalk.functional.rotary import cos_sin

ORDERS = ("interleaved", "sin_cos", "cos_sin")
GRIDS = ("vaswani", "tensor2tensor")


def sinusoidal(
    positions: Tensor, dim: int, *, base: float = 10000.0, order: str = "interleaved", grid: str = "vaswani"
) -> Tensor:
    """PE[p, 2k] = sin(p w_k), PE[p, 2k + 1] = cos(p w_k).

    Args:
        positions: integers [..., T].
        dim: width. An odd one has a sine more than cosines on Vaswani's grid, and a last column of zeros on
            tensor2tensor's, as their users have it; the papers leave it open.
        base: the base of the frequencies.
        order: "interleaved" as in the paper, or all sines first ("sin_cos") or all cosines first ("cos_sin").
            An order is a permutation of columns; a grid is not.
        grid: "vaswani", w_k = base^(-2k / dim), whose slowest pair never reaches 1 / base; or "tensor2tensor",
            w_k = base^(-k / (dim/2 - 1)), which does (also fairseq's and its descendants').

    Returns:
        float32 [..., T, dim], exact to float32 rounding.

    Raises:
        RopewalkError: a dim below 1, an unknown order or grid, positions that are not integers.

    Example:
        >>> sinusoidal(torch.tensor([0]), 4).tolist()
        [[0.0, 1.0, 0.0, 1.0]]

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.5; tensor2tensor `get_timing_signal_1d`.
    """
    one_of("sinusoidal", "order", order, ORDERS)
    frequencies = sinusoidal_frequencies(dim, base=base, grid=grid)
    cos, sin = cos_sin(positions, frequencies)
    if order == "interleaved":
        table = torch.stack((sin, cos), dim=-1).flatten(-2)[..., :dim]
    else:
        cos = cos[..., : dim // 2]
        table = torch.cat((sin, cos) if order == "sin_cos" else (cos, sin), dim=-1)
    return torch.nn.functional.pad(table, (0, dim - table.shape[-1]))


def sinusoidal_shift(
    offset: int, dim: int, *, base: float = 10000.0, order: str = "interleaved", grid: str = "vaswani"
) -> Tensor:
    """The matrix M with PE(p + offset) = M PE(p) for every p: a rotation of each pair.

    Args:
        offset: tokens to move by; negative moves back.
        dim: width, even: the last sine of an odd width has no cosine to turn with.
        base, order, grid: those of the table.

    Returns:
        float64 [dim, dim] on the CPU; orthogonal.

    Raises:
        RopewalkError: an odd dim, an unknown order or grid, an offset that is no whole number.

    Example:
        >>> there = sinusoidal_shift(3, 8) @ sinusoidal(torch.tensor([4]), 8)[0].double()
        >>> torch.allclose(there, sinusoidal(torch.tensor([7]), 8)[0].double(), atol=1e-6)
        True

    Source: the linear map that Vaswani et al. 2017, section 3.5, state without giving it.
    """
    one_of("sinusoidal_shift", "order", order, ORDERS)
    if whole("sinusoidal_shift", "dim", dim, least=2) % 2:
        raise RopewalkError(f"sinusoidal_shift: dim={dim} is odd; its last sine has no cosine to turn with")
    if whole("sinusoidal_shift", "abs(offset)", abs(offset), least=0) != abs(offset):
        raise RopewalkError(f"sinusoidal_shift: offset={offset!r} is not a whole number")
    angles = offset * sinusoidal_frequencies(dim, base=base, grid=grid)
    columns = torch.arange(dim, device="cpu")
    if order == "interleaved":
        sines, cosines = columns[0::2], columns[1::2]
    else:
        sines, cosines = columns.chunk(2) if order == "sin_cos" else columns.chunk(2)[::-1]
    matrix = torch.zeros(dim, dim, dtype=torch.float64, device="cpu")
    matrix[sines, sines] = matrix[cosines, cosines] = angles.cos()
    matrix[sines, cosines], matrix[cosines, sines] = angles.sin(), -angles.sin()
    return matrix


def sinusoidal_frequencies(dim: int, *, base: float = 10000.0, grid: str = "vaswani") -> Tensor:
    """The frequencies w_k of the table's pairs of columns, the fastest first.

    Args:
        dim, base, grid: those of the table.

    Returns:
        float64 on the CPU, radians a position: a pair more than dim // 2 on Vaswani's grid when dim is odd.

    Raises:
        RopewalkError: a dim below 1, an unknown grid, a base that is not above 1.

    Example:
        >>> sinusoidal_frequencies(4, base=100.0)
        tensor([1.0000, 0.1000], dtype=torch.float64)

    Source: see `sinusoidal`.
    """
    whole("sinusoidal", "dim", dim, least=1)
    number("sinusoidal", "base", base, least=1, above=True)
    if one_of("sinusoidal", "grid", grid, GRIDS) == "vaswani":
        return 1.0 / base ** (torch.arange(0, dim, 2, device="cpu").double() / dim)
    pairs = dim // 2
    return 1.0 / base ** (torch.arange(pairs, device="cpu").double() / max(pairs - 1, 1))
