"""Rotary position embedding: frequencies, tables and the rotation itself.

Axis letters: B batch, H heads, T tokens, D head_dim, R rotary_dim, P = R / 2 pairs.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from ropewalk._checks import number, one_of, whole
from ropewalk._errors import RopewalkError

LAYOUTS = ("half", "interleaved")
AXES = ("bhtd", "bthd", "thd")
WITHOUT_FLOAT64 = ("mps",)  # device types; their tables are made on the CPU and moved
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def inv_freq(dim: int, base: float, *, dtype: torch.dtype = torch.float64) -> Tensor:
    """The inverse frequencies, theta_i = base^(-2i / dim) for i = 0 .. dim/2 - 1.

    Args:
        dim: rotary width R, even.
        base: the base of the geometric series (Hugging Face: `rope_theta`), above 1.
        dtype: float64, or float32 to reproduce transformers bit for bit.

    Returns:
        [P] on the CPU, radians a token. It is made on the CPU whatever the default device is, so that
        a model built on `torch.device("meta")` has its frequencies all the same.

    Raises:
        RopewalkError: an odd or non-positive `dim`, a base that is not above 1.

    Example:
        >>> inv_freq(4, 100.0)
        tensor([1.0000, 0.1000], dtype=torch.float64)

    Source: Su et al. 2021 (arXiv 2104.09864), section 3.2.2, counting i from 0.
    """
    if whole("inv_freq", "dim", dim, least=2) % 2:
        raise RopewalkError(f"inv_freq: dim={dim} is odd; a rotation turns pairs, so the rotary width is even")
    number("inv_freq", "base", base, least=1, above=True)
    exponents = torch.arange(0, dim, 2, dtype=torch.int64, device="cpu").to(dtype) / dim
    return 1.0 / (base**exponents)


def cos_sin(
    positions: Tensor, inv_freq: Tensor, attention_factor: float = 1.0, *, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """The rotary tables, cos and sin of positions x inv_freq, each times `attention_factor`.

    Args:
        positions: integers, any shape [..., T].
        inv_freq: [P], or [..., P] with one row of frequencies for each row of positions.
        attention_factor: YaRN's temperature; it multiplies both tables, so logits grow by its square.
        dtype: float32, or float64 for what is computed in it throughout.

    Returns:
        cos, sin: [..., T, P]. Angles, cosines and the product are in the dtype of `inv_freq`
        and are rounded once: float64 keeps them exact to float32 rounding at position 16,000,000. They stand
        on the device of `positions`; one without float64 gets them from the CPU, the same numbers.

    Raises:
        RopewalkError: positions that are not integers.

    Example:
        >>> cos, sin = cos_sin(torch.arange(3), inv_freq(4, 100.0))
        >>> cos.shape, cos.dtype
        (torch.Size([3, 2]), torch.float32)

    Source: Su et al. 2021, equation 34; the factor is YaRN's (arXiv 2309.00071), section 3.4.
    """
    check_positions(positions)
    home = positions.device
    if inv_freq.dtype == torch.float64 and home.type in WITHOUT_FLOAT64:
        positions = positions.cpu()
    inv_freq = inv_freq.to(positions.device)
    with full_precision(positions):
        angles = positions.to(inv_freq.dtype)[..., None] * inv_freq[..., None, :]
        cos, sin = angles.cos() * attention_factor, angles.sin() * attention_factor
    return cos.to(dtype).to(home), sin.to(dtype).to(home)


def apply_rotary(
    x: Tensor, cos: Tensor, sin: Tensor, *, layout: str = "half", axes: str = "bhtd", first: int = 0
) -> Tensor:
    """Rotate the pairs of `x`: (a, b) -> (a cos - b sin, b cos + a sin).

    Args:
        x: queries or keys whose axes `axes` names; the last axis is D >= first + 2P. Features before `first`
            and past the 2P that turn pass through.
        cos, sin: [T, P], or [B, T, P] with a table for each row (not with "thd").
        layout: "half" pairs feature i with i + P (Llama, NeoX); "interleaved" pairs 2i with 2i + 1 (GPT-J).
        axes: "bhtd" (the default), "bthd" or "thd".
        first: the feature at which the turning ones begin.

    Returns:
        A tensor like `x`. Products are in float32 (float64 for a float64 `x`) and rounded once.

    Raises:
        RopewalkError: an unknown layout or axes, a table wider than the head or of another length.

    Example:
        >>> x = torch.tensor([[[[1.0, 0.0]]]])
        >>> quarter = torch.tensor([[torch.pi / 2]])
        >>> apply_rotary(x, quarter.cos(), quarter.sin()).round().tolist()
        [[[[-0.0, 1.0]]]]

    Source: Su et al. 2021, equation 34.
    """
    check_fit(x, (cos, sin), layout, axes, first)
    cos, sin = _aligned(cos, axes), _aligned(sin, axes)
    end = first + 2 * cos.shape[-1]
    before, rotated, rest = x[..., :first], x[..., first:end], x[..., end:]
    with full_precision(x):
        one, other = _split(rotated.to(_compute_dtype(x)), layout)
        turned = (one * cos - other * sin, other * cos + one * sin)
    joined = torch.cat(turned, dim=-1) if layout == "half" else torch.stack(turned, dim=-1).flatten(-2)
    return torch.cat((before, joined.to(x.dtype), rest), dim=-1)


def check_fit(x: Tensor, tables: tuple[Tensor, Tensor], layout: str, axes: str, first: int) -> None:
    """Tables for the tokens of `x`, whose pairs its heads hold."""
    one_of("apply_rotary", "layout", layout, LAYOUTS)
    one_of("apply_rotary", "axes", axes, AXES)
    _compute_dtype(x)
    for table in tables:
        per_row = table.dim() == 3 and axes != "thd" and x.dim() == 4 and table.shape[0] in (1, x.shape[0])
        fits = x.dim() == len(axes) and (table.dim() == 2 or per_row) and 2 * table.shape[-1] <= x.shape[-1]
        if not fits or table.shape[-2] != x.shape[axes.index("t")]:
            raise RopewalkError(
                f"apply_rotary: x of shape {tuple(x.shape)} read as {axes!r} does not fit a table of shape "
                f"{tuple(table.shape)}; give [tokens, pairs], or [batch, tokens, pairs] where the axes name a batch, "
                "and at most half the head width in pairs"
            )
    end = whole("apply_rotary", "first", first, least=0) + 2 * tables[0].shape[-1]
    if end > x.shape[-1]:
        raise RopewalkError(f"apply_rotary: features {first} to {end} of a head {x.shape[-1]} wide")


def check_positions(positions: object) -> None:
    """Positions are integers, in a tensor."""
    kind = positions.dtype if isinstance(positions, Tensor) else type(positions).__name__
    if kind not in INTEGERS:
        raise RopewalkError(f"positions are {kind}; give a tensor of integers: low-precision floats merge neighbours")


def full_precision(x: Tensor) -> AbstractContextManager[None]:
    """Keep autocast out: it would lower the precision of products, and leaves no trace of it."""
    return nullcontext() if x.is_meta else torch.autocast(x.device.type, enabled=False)


def _compute_dtype(x: Tensor) -> torch.dtype:
    if not x.is_floating_point():
        raise RopewalkError(f"apply_rotary: x has dtype {x.dtype}; give a floating-point tensor")
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _split(x: Tensor, layout: str) -> tuple[Tensor, Tensor]:
    if layout == "half":
        first, second = x.chunk(2, dim=-1)
        return first, second
    return x[..., 0::2], x[..., 1::2]


def _aligned(table: Tensor, axes: str) -> Tensor:
    """`table` shaped so that it broadcasts against the pairs of x."""
    heads = {"bhtd": -3, "bthd": -2, "thd": -2}[axes]
    return table.unsqueeze(heads) if table.dim() > 2 or heads == -2 else table
