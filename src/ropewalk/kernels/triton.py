"""The rotation of queries and keys on a GPU, in Triton: both tensors in one launch.

A program takes one token and some heads of q or of k. Offsets are 64 bits wide: tensors hold more than 2^31 numbers.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

HEADS = 4  # heads of a program


def rotate(
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    k_cos: Tensor | None,
    k_sin: Tensor | None,
    first: int,
    interleaved: bool,
    inverse: bool,
    out: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """`torch.ops.ropewalk.rotate` for q [B, H, T, D] and k [B, K, S, D]; into `out` where it is given."""
    to_q, to_k = (torch.empty_like(q), torch.empty_like(k)) if out is None else out
    of_k = (cos, sin) if k_cos is None or k_sin is None else (k_cos, k_sin)
    sides = [*_side(q, to_q, (cos, sin)), *_side(k, to_k, of_k)]
    tokens, heads = max(q.shape[2], k.shape[2]), [triton.cdiv(x.shape[1], HEADS) for x in (q, k)]
    if q.numel() + k.numel():
        width, pairs = q.shape[-1], cos.shape[-1]
        _rotate[(q.shape[0] * tokens, sum(heads))](
            *sides, tokens, heads[0], first, pairs, width, -1.0 if inverse else 1.0,
            interleaved, triton.next_power_of_2(pairs), triton.next_power_of_2(width), HEADS, q.dtype == torch.float64,
        )  # fmt: skip
    return to_q, to_k


def _side(x: Tensor, y: Tensor, tables: tuple[Tensor, Tensor]) -> list[Any]:
    """Addresses, sizes and strides of a tensor, of where it goes and of its tables."""
    strides = [
        (table.stride(0) if table.dim() == 3 and table.shape[0] > 1 else 0, *table.stride()[-2:]) for table in tables
    ]
    return [x, y, *tables, x.shape[1], x.shape[2], *x.stride(), *y.stride(), *strides[0], *strides[1]]


@triton.jit
def _rotate(
    q, to_q, q_cos, q_sin, q_heads, q_tokens, q_b, q_h, q_t, q_d, to_q_b, to_q_h, to_q_t, to_q_d,
    q_cos_b, q_cos_t, q_cos_p, q_sin_b, q_sin_t, q_sin_p,
    k, to_k, k_cos, k_sin, k_heads, k_tokens, k_b, k_h, k_t, k_d, to_k_b, to_k_h, to_k_t, to_k_d,
    k_cos_b, k_cos_t, k_cos_p, k_sin_b, k_sin_t, k_sin_p,
    tokens, q_blocks, first, pairs, width, direction,
    INTERLEAVED: tl.constexpr, PAIRS: tl.constexpr, WIDTH: tl.constexpr, HEADS: tl.constexpr, DOUBLE: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0) // tokens).to(tl.int64)
    token = (tl.program_id(0) % tokens).to(tl.int64)
    block = tl.program_id(1)
    if block < q_blocks:
        if token < q_tokens:
            _turn(
                q + row * q_b + token * q_t, to_q + row * to_q_b + token * to_q_t,
                q_cos + row * q_cos_b + token * q_cos_t, q_sin + row * q_sin_b + token * q_sin_t,
                block * HEADS, q_heads, q_h, q_d, to_q_h, to_q_d, q_cos_p, q_sin_p, first, pairs, width, direction,
                INTERLEAVED, PAIRS, WIDTH, HEADS, DOUBLE,
            )  # fmt: skip
    elif token < k_tokens:
        _turn(
            k + row * k_b + token * k_t, to_k + row * to_k_b + token * to_k_t,
            k_cos + row * k_cos_b + token * k_cos_t, k_sin + row * k_sin_b + token * k_sin_t,
            (block - q_blocks) * HEADS, k_heads, k_h, k_d, to_k_h, to_k_d, k_cos_p, k_sin_p, first, pairs, width,
            direction, INTERLEAVED, PAIRS, WIDTH, HEADS, DOUBLE,
        )  # fmt: skip


@triton.jit
def _turn(
    x, y, cos, sin, head, heads, x_h, x_d, y_h, y_d, cos_p, sin_p, first, pairs, width, direction,
    INTERLEAVED: tl.constexpr, PAIRS: tl.constexpr, WIDTH: tl.constexpr, HEADS: tl.constexpr, DOUBLE: tl.constexpr,
):  # fmt: skip
    head = head + tl.arange(0, HEADS)[:, None].to(tl.int64)
    pair = tl.arange(0, PAIRS)
    turns, in_head = pair < pairs, head < heads
    c = tl.load(cos + pair * cos_p, mask=turns, other=0.0)[None, :]
    s = tl.load(sin + pair * sin_p, mask=turns, other=0.0)[None, :] * direction
    one = first + (2 * pair if INTERLEAVED else pair)[None, :].to(tl.int64)
    other = one + (1 if INTERLEAVED else pairs)
    seen = in_head & turns[None, :]
    a = tl.load(x + head * x_h + one * x_d, mask=seen, other=0.0)
    b = tl.load(x + head * x_h + other * x_d, mask=seen, other=0.0)
    exact = tl.float64 if DOUBLE else tl.float32  # one rounding, at the end
    a, b, c, s = a.to(exact), b.to(exact), c.to(exact), s.to(exact)
    tl.store(y + head * y_h + one * y_d, (a * c - b * s).to(y.dtype.element_ty), mask=seen)
    tl.store(y + head * y_h + other * y_d, (b * c + a * s).to(y.dtype.element_ty), mask=seen)
    if width > 2 * pairs:  # what does not turn passes through
        feature = tl.arange(0, WIDTH)[None, :].to(tl.int64)
        still = (feature < first) | (feature >= first + 2 * pairs)
        seen = in_head & still & (feature < width)
        rest = tl.load(x + head * x_h + feature * x_d, mask=seen, other=0.0)
        tl.store(y + head * y_h + feature * y_d, rest, mask=seen)
