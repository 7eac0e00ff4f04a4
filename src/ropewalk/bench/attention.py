"""Attention with a bias or a window, timed beside torch's causal attention without either."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from ropewalk.attention import attend
from ropewalk.bench.clock import interleaved
from ropewalk.bench.ratios import against
from ropewalk.modules import ALiBi, Encoding, Shaw, T5Bias

HEADS, TOKENS, WIDTH, WINDOW = 4, 4096, 64, 256
LIMIT = "causal attention"
Call = Callable[[Tensor, Tensor, Tensor], Tensor]


def entry(
    name: str,
    ways: dict[str, Call],
    target: float,
    rounds: int,
    *,
    backward: bool = False,
    exact: Call | None = None,
    learnt: Sequence[Tensor] = (),
) -> dict[str, Any]:
    """One job of the result: each way over causal attention. `learnt` are parameters that get a gradient too."""
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, HEADS, TOKENS, WIDTH, generator=random) for _ in range(3))
    torch.compiler.reset()
    causal = partial(scaled_dot_product_attention, is_causal=True)
    with torch.inference_mode(not backward):
        errors = _errors(ways, exact, q, k, v)
        each: dict[str, Call] = {LIMIT: causal, **ways}
        wanted = {way: () if way == LIMIT else learnt for way in each}
        seconds = interleaved(
            {way: _timed(call, (q, k, v), backward, wanted[way]) for way, call in each.items()}, rounds
        )
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


def _timed(call: Call, qkv: Sequence[Tensor], backward: bool, learnt: Sequence[Tensor]) -> Callable[[], object]:
    if not backward:
        return partial(call, *qkv)
    leaves = [x.detach().requires_grad_() for x in qkv]
    upstream = torch.randn_like(qkv[0])
    return lambda: torch.autograd.grad(call(*leaves), [*leaves, *learnt], upstream)


def _biased(encoding: Encoding) -> dict[str, Call]:
    """Ours, and torch's attention with a mask that is ready or is made in each call."""
    ready = _mask(encoding, torch.float32).detach()
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
    return bias.to(dtype).masked_fill(positions > positions[:, None], -torch.inf)[None]


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


def _alibi(rounds: int) -> dict[str, Any]:
    encoding = ALiBi(HEADS)
    return entry("alibi attention", _biased(encoding) | _flex(encoding), 1.35, rounds, exact=_exact(encoding))


def _alibi_with_backward(rounds: int) -> dict[str, Any]:
    return entry("alibi attention with backward", _biased(ALiBi(HEADS)), 1.5, rounds, backward=True)


def _window(rounds: int) -> dict[str, Any]:
    ours: Any = partial(attend, causal=True, window=WINDOW)
    return entry(f"window of {WINDOW}", {"ropewalk": ours} | _flex(None, WINDOW), 0.49, rounds)


def _gathered(encoding: Shaw, *, skew: bool) -> Call:
    """torch's attention with a mask that holds q . a of each pair: gathered, or skewed into place."""
    positions = torch.arange(TOKENS)
    future = positions > positions[:, None]
    clip = (torch.arange(-TOKENS + 1, TOKENS) + encoding.max_distance).clamp(0, len(encoding.keys) - 1)

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if skew:
            by_distance = (q @ encoding.keys.to(q.dtype).mT)[..., clip]
            strides = (*by_distance.stride()[:2], by_distance.shape[-1] - 1, 1)
            relation = by_distance.as_strided((*q.shape[:3], TOKENS), strides, TOKENS - 1)
        else:
            relation = encoding.relation(q, k, positions, positions)
        mask = (relation * WIDTH**-0.5).masked_fill(future, -torch.inf)
        return scaled_dot_product_attention(q, k, v, attn_mask=mask)

    return call


def _shaw(rounds: int) -> dict[str, Any]:
    encoding = Shaw(WIDTH, 16, values=False).requires_grad_(False)
    exact, gathered, skewed = (_gathered(encoding, skew=skew) for skew in (False, False, True))
    ours: Any = partial(attend, causal=True, encoding=encoding)
    ways = {"ropewalk": ours, "gathered": gathered, "skewed": skewed}
    return entry("shaw attention", ways, 2.0, rounds, exact=lambda *qkv: exact(*(x.double() for x in qkv)))


def _t5_with_backward(rounds: int) -> dict[str, Any]:
    encoding = T5Bias(HEADS)
    ways = _biased(encoding)
    del ways["a mask, ready"]  # which learns nothing
    learnt = [encoding.weight]
    return entry("t5 attention with backward", ways, 2.4, rounds, backward=True, learnt=learnt)


def _t5(rounds: int) -> dict[str, Any]:
    encoding = T5Bias(HEADS).requires_grad_(False)
    torch.nn.init.normal_(encoding.weight)
    return entry("t5 attention", _biased(encoding), 2.4, rounds, exact=_exact(encoding))


# Each makes its masks when it is its turn: a mask takes more memory than all else.
TIMED = {
    "alibi attention": _alibi,
    "alibi attention with backward": _alibi_with_backward,
    f"window of {WINDOW}": _window,
    "t5 attention": _t5,
    "t5 attention with backward": _t5_with_backward,
    "shaw attention": _shaw,
}
