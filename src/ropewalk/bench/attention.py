"""Attention with a bias or a window, timed beside torch's causal attention without either."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from ropewalk.attention import attend
from ropewalk.bench.clock import interleaved
from ropewalk.bench.ratios import against
from ropewalk.modules import ALiBi, Encoding, T5Bias

HEADS, TOKENS, WIDTH, WINDOW = 4, 4096, 64, 256
LIMIT = "causal attention"
Call = Callable[[Tensor, Tensor, Tensor], Tensor]


def attention(rounds: int) -> list[dict[str, Any]]:
    """ALiBi forward and backward, a window, and T5's bias, at 4 heads of 64 and 4096 tokens in float32."""
    alibi, t5 = ALiBi(HEADS), T5Bias(HEADS)
    torch.nn.init.normal_(t5.weight)
    windowed: Any = partial(attend, causal=True, window=WINDOW)
    return [
        entry("alibi attention", _biased(alibi) | _flex(alibi), 1.35, rounds, exact=_exact(alibi)),
        entry("alibi attention with backward", _biased(alibi), 1.5, rounds, backward=True),
        entry(f"window of {WINDOW}", {"ropewalk": windowed} | _flex(None, WINDOW), 0.49, rounds),
        entry("t5 attention", _biased(t5), 2.4, rounds, exact=_exact(t5)),
    ]


def entry(
    name: str, ways: dict[str, Call], target: float, rounds: int, *, backward: bool = False, exact: Call | None = None
) -> dict[str, Any]:
    """One job of the result: each way over causal attention."""
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, HEADS, TOKENS, WIDTH, generator=random) for _ in range(3))
    torch.compiler.reset()
    causal = partial(scaled_dot_product_attention, is_causal=True)
    with torch.inference_mode(not backward):
        errors = _errors(ways, exact, q, k, v)
        each: dict[str, Call] = {LIMIT: causal, **ways}
        seconds = interleaved({way: _timed(call, q, k, v, backward) for way, call in each.items()}, rounds)
    what = LIMIT + (", forward and backward" if backward else "")
    return {
        "job": name, "shape": [1, HEADS, HEADS, TOKENS, WIDTH], "dtype": "float32", "layout": "-", "axes": "bhtd",
        "target": target, **against(errors, seconds, LIMIT, what),
    }  # fmt: skip


def _errors(ways: dict[str, Call], exact: Call | None, q: Tensor, k: Tensor, v: Tensor) -> dict[str, float | None]:
    if exact is None:
        return dict.fromkeys(ways)
    expected = exact(q, k, v)
    return {name: float((call(q, k, v).detach().double() - expected).abs().max()) for name, call in ways.items()}


def _timed(call: Call, q: Tensor, k: Tensor, v: Tensor, backward: bool) -> Callable[[], object]:
    if not backward:
        return partial(call, q, k, v)
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    upstream = torch.randn_like(q)
    return lambda: torch.autograd.grad(call(*leaves), leaves, upstream)


def _biased(encoding: Encoding) -> dict[str, Call]:
    """Ours, and torch's attention with a mask that is ready or is made in each call."""
    ready = _mask(encoding, torch.float32)
    ours: Any = partial(attend, causal=True, encoding=encoding)
    return {
        "ropewalk": ours,
        "a mask, ready": lambda q, k, v: scaled_dot_product_attention(q, k, v, attn_mask=ready),
        "a mask, made each time": lambda q, k, v: scaled_dot_product_attention(
            q, k, v, attn_mask=_mask(encoding, torch.float32)
        ),
    }


def _mask(encoding: Encoding, dtype: torch.dtype) -> Tensor:
    positions = torch.arange(TOKENS)
    bias: Any = encoding.bias(positions, positions)
    return bias.detach().to(dtype).masked_fill(positions > positions[:, None], -torch.inf)[None]


def _exact(encoding: Encoding) -> Call:
    """In float64, with the bias written out."""
    return lambda q, k, v: scaled_dot_product_attention(
        q.double(), k.double(), v.double(), attn_mask=_mask(encoding, torch.float64)
    )


def _flex(encoding: ALiBi | None, window: int | None = None) -> dict[str, Call]:
    """FlexAttention, compiled; on the CPU it gives no gradients."""

    def sees(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (i >= j) if window is None else (i >= j) & (i - j < window)

    def biased(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return score + slopes[h] * (j - i)

    slopes = torch.zeros(HEADS) if encoding is None else encoding.slopes
    blocks = create_block_mask(sees, None, None, TOKENS, TOKENS, device="cpu")
    compiled = torch.compile(flex_attention)
    score = None if encoding is None else biased
    return {"flex attention, compiled": lambda q, k, v: compiled(q, k, v, score_mod=score, block_mask=blocks)}
