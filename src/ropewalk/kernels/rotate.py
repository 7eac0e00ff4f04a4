"""Rotate queries and keys in one call, by the fastest code that is there."""

from typing import Any

import torch
from torch import Tensor

from ropewalk._checks import one_of
from ropewalk._errors import RopewalkError
from ropewalk.functional.rotary import AXES, LAYOUTS, apply_rotary
from ropewalk.kernels import cpu
from ropewalk.kernels.overlap import check_out

IMPLS = ("auto", "cpu", "torch")
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
WIDEST = 1024  # features of a head that the kernel's buffer holds

Tables = tuple[Tensor, Tensor]
Pair = tuple[Tensor, Tensor]


def rotate(
    q: Tensor,
    k: Tensor,
    tables: Tables,
    k_tables: Tables | None = None,
    *,
    layout: str = "half",
    axes: str = "bhtd",
    first: int = 0,
    out: Pair | None = None,
    impl: str = "auto",
) -> Pair:
    """Rotate the pairs of q and k: (a, b) -> (a cos - b sin, b cos + a sin).

    Args:
        q, k: tensors whose axes `axes` names, with any strides; heads and tokens may differ between them.
        tables: cos and sin, [T, P] or [B, T, P], of q, and of k too where `k_tables` is left out.
        k_tables: of k, where its tokens stand elsewhere.
        layout, axes, first: as in `functional.apply_rotary`.
        out: where to write; (q, k) itself rotates in place. It gives no gradients.
        impl: "cpu" is the compiled kernel, "torch" its own operators; "auto" takes what serves. A named one that cannot
            serve raises.

    Returns:
        Rotated q and k, in their dtype: products in float32 (float64 for float64), rounded once. Both
        implementations give the same bits.

    Raises:
        RopewalkError: shapes or options that do not fit, an `out` that overlaps what is still to be read.

    Example:
        >>> q, k = torch.ones(1, 8, 10, 64), torch.ones(1, 2, 10, 64)
        >>> angles = torch.arange(10.0)[:, None] * 10_000.0 ** (-torch.arange(32) / 32)
        >>> q, k = rotate(q, k, (angles.cos(), angles.sin()))
        >>> q.shape, k.shape
        (torch.Size([1, 8, 10, 64]), torch.Size([1, 2, 10, 64]))

    Source: Su et al. 2021 (arXiv 2104.09864), equation 34.
    """
    of_k = tables if k_tables is None else k_tables
    if out is not None:
        check_out(q, k, (*tables, *of_k), out)
    refused = _refusal(q, k, (*tables, *of_k), layout, axes, impl)
    if refused is None:
        all_tables = (*tables, None, None) if k_tables is None or k_tables is tables else (*tables, *k_tables)
        return _by_kernel(q, k, all_tables, layout, axes, first, out)
    if impl == "cpu":
        raise RopewalkError(f"rotate: impl='cpu' cannot serve: {refused}; leave impl out")
    turned = (
        apply_rotary(q, *tables, layout=layout, axes=axes, first=first),
        apply_rotary(k, *of_k, layout=layout, axes=axes, first=first),
    )
    return turned if out is None else (out[0].copy_(turned[0]), out[1].copy_(turned[1]))


def _refusal(q: Tensor, k: Tensor, tables: tuple[Tensor, ...], layout: str, axes: str, impl: str) -> str | None:
    """Why the kernel cannot take this call: its cheap questions first, for one token costs as much as they do."""
    if impl != "auto":
        one_of("rotate", "impl", impl, IMPLS)
    if impl == "torch":
        return "torch was asked for"
    if cpu.missing is not None:
        return cpu.missing
    if layout not in LAYOUTS or axes not in AXES or not _shapes_fit(q, k, tables, axes):
        return "these shapes and options fit nothing"  # apply_rotary says what is wrong
    if q.device.type != "cpu" or q.dtype not in DTYPES or k.dtype != q.dtype or q.shape[-1] > WIDEST:
        return f"it takes q and k of one floating-point dtype on the CPU, at most {WIDEST} wide"
    if any(table.dtype != torch.float32 or table.requires_grad for table in tables):
        return "it takes tables in float32 that need no gradient"
    if torch.compiler.is_compiling():
        return "its function cannot be traced with one tensor as both q and k" if q is k else None
    if not all(type(x) in (Tensor, torch.nn.Parameter) for x in (q, k, *tables)):
        return "it takes plain tensors"
    if torch._C._are_functorch_transforms_active() or torch.autograd.forward_ad._current_level >= 0:
        return "it knows reverse differentiation alone"
    return None


def _shapes_fit(q: Tensor, k: Tensor, tables: tuple[Tensor, ...], axes: str) -> bool:
    at, dims = axes.index("t"), len(axes)
    if q.dim() != dims or k.dim() != dims or q.shape[-1] != k.shape[-1]:
        return False
    if dims == 4 and q.shape[0] != k.shape[0]:
        return False
    pairs = tables[0].shape[-1]
    for x, table in zip((q, q, k, k), tables, strict=True):
        rows = table.dim() == 2 or (table.dim() == 3 and dims == 4 and table.shape[0] in (1, x.shape[0]))
        if not rows or table.shape[-2] != x.shape[at] or table.shape[-1] != pairs or 2 * pairs > x.shape[-1]:
            return False
    return True


def _by_kernel(
    q: Tensor, k: Tensor, tables: tuple[Tensor | None, ...], layout: str, axes: str, first: int, out: Pair | None
) -> Pair:
    options = (first, layout == "interleaved", False)
    if out is not None:
        with torch.no_grad():
            places = [_as_bhtd(x, axes) for x in (q, k, *out)]
            torch.ops.ropewalk.rotate_out.default(*places[:2], *tables, *options, *places[2:])
        torch.autograd.graph.increment_version(out)
        return out
    if axes != "bhtd":
        q, k = _as_bhtd(q, axes), _as_bhtd(k, axes)
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad):
        turned: Any = _Rotation.apply(q, k, *tables, *options)
    else:
        turned = torch.ops.ropewalk.rotate.default(q, k, *tables, *options)
    return turned if axes == "bhtd" else (_from_bhtd(turned[0], axes), _from_bhtd(turned[1], axes))


def _as_bhtd(x: Tensor, axes: str) -> Tensor:
    if axes == "bhtd":
        return x
    return x.transpose(1, 2) if axes == "bthd" else x.transpose(0, 1)[None]


def _from_bhtd(x: Tensor, axes: str) -> Tensor:
    return x.transpose(1, 2) if axes == "bthd" else x[0].transpose(0, 1)


class _Rotation(torch.autograd.Function):
    """The gradient of a rotation is the rotation back, of the gradient: nothing but the tables is kept for it."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, *rest: Any) -> Pair:
        """`rest`: the four tables, first, interleaved, inverse."""
        ctx.save_for_backward(*rest[:4])
        ctx.options = rest[4:]
        return torch.ops.ropewalk.rotate.default(q, k, *rest)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """By the function itself, so that it can be differentiated again."""
        first, interleaved, inverse = ctx.options
        q, k = _Rotation.apply(*gradients, *ctx.saved_tensors, first, interleaved, not inverse)
        return q, k, *[None] * 7
