"""Rotate queries and keys in one call, by the fastest code that is there."""

from typing import Any

import torch
from torch import Tensor

from ropewalk._checks import one_of
from ropewalk._errors import RopewalkError
from ropewalk.functional.rotary import AXES, LAYOUTS, apply_rotary, check_fit
from ropewalk.kernels import cpu
from ropewalk.kernels.autograd import Pair, called
from ropewalk.kernels.overlap import check_out

IMPLS = ("auto", "cpu", "triton", "torch")
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
WIDEST = 1024  # features of a head that the kernel's buffer holds

Tables = tuple[Tensor, Tensor]


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
        impl: "cpu" is the compiled kernel, "triton" the one for GPUs, "torch" its own operators; "auto" takes "cpu"
            where that serves and "torch" elsewhere. A named one that cannot serve raises.

    Returns:
        Rotated q and k, in their dtype: products in float32 (float64 for float64), rounded once. "cpu" and "torch" give
        the same bits; a GPU fuses products and sums.

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
    if out is not None:
        check_out(q, k, (*tables, *(k_tables or ())), out)
    if one_of("rotate", "impl", impl, IMPLS) == "triton":
        return _by_triton(q, k, tables, k_tables, layout, axes, first, out)
    refused: Pair | str = "torch was asked for"
    if impl != "torch":
        turned = refused = _by_kernel(q, k, tables, k_tables, layout, axes, first, out)
        if not isinstance(turned, str):
            return turned
    if impl == "cpu":
        raise RopewalkError(f"rotate: impl='cpu' cannot serve: {refused}; leave impl out")
    turned = (
        apply_rotary(q, *tables, layout=layout, axes=axes, first=first),
        apply_rotary(k, *(k_tables or tables), layout=layout, axes=axes, first=first),
    )
    return turned if out is None else (out[0].copy_(turned[0]), out[1].copy_(turned[1]))


def _by_kernel(
    q: Tensor, k: Tensor, tables: Tables, k_tables: Tables | None, layout: str, axes: str, first: int, out: Pair | None
) -> Pair | str:
    """What the kernel gives, or why it cannot. Shapes are its own to check: one token costs no more than a question."""
    shared = k_tables is None or (
        k_tables[0] is tables[0] and k_tables[1] is tables[1]
    )  # tuples' own "is" has no graph
    all_tables = (*tables, *((None, None) if k_tables is None or shared else k_tables))
    refused = _refusal((q, k, *all_tables, *(out or ())))
    if refused is not None:
        return refused
    if layout not in LAYOUTS or axes not in AXES or q.dim() != len(axes) or k.dim() != len(axes):
        return "no such layout or axes"
    if axes == "thd" and any(table is not None and table.dim() != 2 for table in all_tables):
        return "tables by row go with a batch"
    given = (q, k) if axes == "bhtd" else (_as_bhtd(q, axes), _as_bhtd(k, axes))
    rest = (*all_tables, first, layout == "interleaved", False)
    if torch.compiler.is_compiling():
        return _from_bhtd(called("cpu", *given, *rest), axes) if out is None else "it is not traced into given tensors"
    try:
        if out is None:
            return _from_bhtd(called("cpu", *given, *rest), axes)
        torch.ops.ropewalk.rotate_out.default(*given, *rest, *(_as_bhtd(x.detach(), axes) for x in out))
    except RuntimeError as error:
        return str(error)
    torch.autograd.graph.increment_version(out)
    return out


def _refusal(given: tuple[Tensor | None, ...]) -> str | None:
    """Why the kernel cannot take q, k, four tables and outputs such as these."""
    if cpu.missing is not None:
        return cpu.missing
    learns, tables = torch.is_grad_enabled(), given[2:6]
    if torch.compiler.is_compiling():
        return _untraceable(given[0], given[1], tables)
    for x in given:
        if x is not None and ((type(x) is not Tensor and type(x) is not torch.nn.Parameter) or x.is_neg()):
            return "it takes plain tensors, whose numbers are those in memory"
    for table in tables:
        if learns and table is not None and table.requires_grad:
            return "it takes tables that need no gradient"
    if torch._C._are_functorch_transforms_active() or torch.autograd.forward_ad._current_level >= 0:
        return "it knows reverse differentiation alone"
    return None


def _untraceable(q: Any, k: Any, tables: tuple[Tensor | None, ...]) -> str | None:
    """The operator's own questions, which nobody asks while a graph is made."""
    if q is k:
        return "its function cannot be traced with one tensor as both q and k"
    if q.device.type != "cpu" or q.dtype not in DTYPES or k.dtype != q.dtype or q.shape[-1] > WIDEST:
        return f"it takes q and k of one floating-point dtype on the CPU, at most {WIDEST} wide"
    if 0 in q.stride() or 0 in k.stride():
        return "a graph could not foresee how what it makes of expanded tensors lies in memory"
    if any(table is not None and (table.dtype != torch.float32 or table.requires_grad) for table in tables):
        return "it takes tables in float32 that need no gradient"
    return None


def _by_triton(
    q: Tensor, k: Tensor, tables: Tables, k_tables: Tables | None, layout: str, axes: str, first: int, out: Pair | None
) -> Pair:
    """What the GPU's kernel gives; whatever it would read beyond a tensor is refused here."""
    try:
        from ropewalk.kernels import triton
    except ImportError as error:
        raise RopewalkError(f"rotate: impl='triton' needs Triton ({error}); leave impl out") from error
    for x, each in ((q, tables), (k, k_tables or tables)):
        check_fit(x, each, layout, axes, first)
    all_tables = (*tables, None, None) if k_tables is None else (*tables, *k_tables)
    options = (*all_tables, first, layout == "interleaved", False)
    given: list[Any] = [_as_bhtd(q, axes), _as_bhtd(k, axes), *options]
    if out is None:
        return _from_bhtd(called("triton", *given), axes)
    given.append((_as_bhtd(out[0], axes), _as_bhtd(out[1], axes)))
    triton.rotate(*given)
    torch.autograd.graph.increment_version(out)
    return out


def _as_bhtd(x: Tensor, axes: str) -> Tensor:
    if axes == "bhtd":
        return x
    return x.transpose(1, 2) if axes == "bthd" else x.transpose(0, 1)[None]


def _from_bhtd(turned: Pair, axes: str) -> Pair:
    if axes == "bhtd":
        return turned
    q, k = turned if axes == "bthd" else (turned[0][0], turned[1][0])
    return (q.transpose(1, 2), k.transpose(1, 2)) if axes == "bthd" else (q.transpose(0, 1), k.transpose(0, 1))
