"""A kernel's rotation, with its gradient."""

from typing import Any

import torch
from torch import Tensor

Pair = tuple[Tensor, Tensor]


def called(kernel: str, q: Tensor, k: Tensor, *rest: Any) -> Pair:
    """The kernel of that name, with a gradient where one is needed."""
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad):
        turned: Any = Rotation.apply(kernel, q, k, *rest)
        return turned
    return _launched(kernel, q, k, *rest)


def _launched(kernel: str, *given: Any) -> Pair:
    if kernel == "cpu":
        return torch.ops.ropewalk.rotate.default(*given)
    from ropewalk.kernels import triton

    return triton.rotate(*given)


class Rotation(torch.autograd.Function):
    """The gradient of a rotation is the rotation back, of the gradient: nothing but the tables is kept for it."""

    @staticmethod
    def forward(ctx: Any, kernel: str, q: Tensor, k: Tensor, *rest: Any) -> Pair:
        """`rest`: the four tables, first, interleaved, inverse."""
        ctx.save_for_backward(*rest[:4])
        ctx.options = kernel, *rest[4:]
        turned = _launched(kernel, q, k, *rest)
        ctx.mark_non_differentiable(*(y for x, y in zip((q, k), turned, strict=True) if not x.requires_grad))
        return turned

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """By the function itself, so that it can be differentiated again."""
        kernel, first, interleaved, inverse = ctx.options
        q, k = Rotation.apply(kernel, *gradients, *ctx.saved_tensors, first, interleaved, not inverse)
        return None, q, k, *[None] * 7
