"""Whether tensors that are written may lie where they lie."""

import torch
from torch import Tensor

from ropewalk._errors import RopewalkError


def check_out(q: Tensor, k: Tensor, tables: tuple[Tensor, ...], out: tuple[Tensor, Tensor]) -> None:
    """`out` fits q and k, takes no gradient, and overlaps nothing that is still to be read but q and k themselves."""
    for name, x, y in (("q", q, out[0]), ("k", k, out[1])):
        if y.shape != x.shape or y.dtype != x.dtype or y.device != x.device:
            raise RopewalkError(f"rotate: out for {name} is {_described(y)}; give {_described(x)}")
        if torch.is_grad_enabled() and any(t.requires_grad for t in (x, y, *tables)):
            raise RopewalkError(
                f"rotate: out= gives no gradients, and {name} would need them; leave out= out, or detach"
            )
        if _overlaps_itself(y):
            raise RopewalkError(f"rotate: out for {name} is a view in which several elements are one in memory")
    pairs = [(out[0], out[1]), (out[0], k), (out[1], q), *((y, table) for y in out for table in tables)]
    pairs += [(y, x) for x, y in ((q, out[0]), (k, out[1])) if not _same(x, y)]
    if any(_may_overlap(y, x) for y, x in pairs):
        raise RopewalkError(
            "rotate: out overlaps what is read; give fresh tensors, or q and k themselves where these do not overlap"
        )


def _same(x: Tensor, y: Tensor) -> bool:
    """One in shape and in memory; how far a single element would step is of no account."""
    strides = [[stride for size, stride in zip(t.shape, t.stride(), strict=True) if size > 1] for t in (x, y)]
    return x.data_ptr() == y.data_ptr() and x.shape == y.shape and strides[0] == strides[1]


def _overlaps_itself(x: Tensor) -> bool:
    """Whether a step falls within what the smaller steps reach; expanded and sliding views do."""
    reach = 1
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size > 1:
            if stride < reach:
                return True
            reach += (size - 1) * stride
    return False


def _may_overlap(x: Tensor, y: Tensor) -> bool:
    """False where they surely have no element in common: apart in memory, or side by side within each token.

    The second is how q and k lie in the output of one projection, [B, T, 3, H, D].
    """
    if not x.numel() or not y.numel() or not _meet(_span(x), _span(y)):
        return False
    return not _side_by_side(x, y)


def _span(x: Tensor) -> tuple[int, int]:
    """First byte, and the one after the last; strides of torch are never negative."""
    last = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    return x.data_ptr(), x.data_ptr() + (last + 1) * x.element_size()


def _meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _side_by_side(x: Tensor, y: Tensor) -> bool:
    """Whether x and y repeat with the same steps, each step wide enough for one repetition of both, apart in it."""
    if x.dim() != y.dim() or x.element_size() != y.element_size():
        return False
    steps = [n for n in range(x.dim()) if x.stride(n) == y.stride(n) and x.shape[n] == y.shape[n]]
    while steps:
        one, other = (t[tuple(slice(0, 1) if n in steps else slice(None) for n in range(t.dim()))] for t in (x, y))
        spans = _span(one), _span(other)
        width = max(spans[0][1], spans[1][1]) - min(spans[0][0], spans[1][0])
        if not _meet(*spans) and _steps_clear(x, steps, width):
            return True
        steps.remove(min(steps, key=lambda n: x.stride(n)))  # the features and heads of a token belong together
    return False


def _steps_clear(x: Tensor, steps: list[int], width: int) -> bool:
    """Whether each step, from the smallest on, passes all that the smaller ones reach."""
    for n in sorted(steps, key=x.stride):
        if x.shape[n] > 1:
            if x.stride(n) * x.element_size() < width:
                return False
            width += (x.shape[n] - 1) * x.stride(n) * x.element_size()
    return True


def _described(x: Tensor) -> str:
    return f"{list(x.shape)} in {x.dtype} on {x.device}"
