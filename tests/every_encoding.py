"""Every encoding, built for a model of 4 heads of width 16: what holds for all is tested on all."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ropewalk import (
    ALiBi,
    CoPE,
    DualChunk,
    DynamicNTK,
    Encoding,
    Fire,
    Kerple,
    Learned,
    NoPE,
    Rotary,
    Sandwich,
    SelfExtend,
    Shaw,
    Sinusoidal,
    T5Bias,
    TransformerXL,
    XPos,
    YaRN,
    attend,
    for_heads,
    positions,
)
from ropewalk.functional import t5
from ropewalk.models import Decoder

HEADS, WIDTH, DIM = 4, 16, 64
LONGEST = 128  # what the learned table holds; the others go on

ENCODINGS: dict[str, Callable[[], Encoding]] = {
    "nope": NoPE,
    "sinusoidal interleaved": lambda: Sinusoidal(DIM),
    "sinusoidal sin_cos": lambda: Sinusoidal(DIM, "sin_cos"),
    "sinusoidal cos_sin": lambda: Sinusoidal(DIM, "cos_sin"),
    "learned": lambda: Learned(LONGEST, DIM),
    "rotary": lambda: Rotary(WIDTH),
    "rotary interleaved": lambda: Rotary(WIDTH, layout="interleaved"),
    "rotary leading": lambda: Rotary(WIDTH, rotary_dim=6),
    "rotary trailing": lambda: Rotary(WIDTH, rotary_dim=6, block="trailing"),
    "rotary reverse": lambda: Rotary(WIDTH, reverse=True),
    "rotary yarn": lambda: Rotary(WIDTH, scaling=YaRN(factor=4.0, original_length=16)),
    "rotary dynamic ntk": lambda: Rotary(WIDTH, scaling=DynamicNTK(factor=4.0, original_length=16)),
    "xpos": lambda: XPos(WIDTH),
    "xpos interleaved": lambda: XPos(WIDTH, scale_base=20.0, layout="interleaved"),
    "alibi": lambda: ALiBi(HEADS),
    "alibi halves": lambda: ALiBi(HEADS, form="halves"),
    "t5": lambda: T5Bias(HEADS, buckets=8, max_distance=30),
    "t5 bidirectional": lambda: T5Bias(HEADS, buckets=8, max_distance=30, bidirectional=True),
    "t5 heads": lambda: for_heads(T5Bias(7, buckets=8, max_distance=30), 2, 6, of=7),
    "kerple": lambda: Kerple(HEADS),
    "kerple power": lambda: Kerple(HEADS, "power"),
    "sandwich": lambda: Sandwich(HEADS, dim=32),
    "fire": lambda: Fire(HEADS, hidden=8, threshold=60.0, c=0.4),
    "shaw": lambda: Shaw(WIDTH, max_distance=5),
    "shaw keys only": lambda: Shaw(WIDTH, max_distance=5, max_future=0, values=False),
    "transformer-xl": lambda: TransformerXL(WIDTH, HEADS, dim=24),
    "cope": lambda: CoPE(WIDTH, max_position=4),
    "self-extend": lambda: SelfExtend(Rotary(WIDTH), group=3, window=6),
    "dual chunk": lambda: DualChunk(Rotary(WIDTH, layout="interleaved"), chunk_size=9, local_size=3),
}
ADDED = [name for name in ENCODINGS if name.startswith(("sinusoidal", "learned"))]
RELATIVE = [name for name in ENCODINGS if name not in ADDED]
PLACED = ("fire", "self-extend", "dual chunk")  # those that see where a pair stands, beside its distance
SHIFTED = [name for name in RELATIVE if name not in PLACED]
COMPUTED = ("kerple", "fire")  # from parameters, not looked up among them: with those in float64 they are float64's


def sample(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def vivid(module: nn.Module, size: float = 0.5) -> Any:
    """Parameters so large that a wrong one shows; the same ones each time."""
    with torch.no_grad():
        for seed, parameter in enumerate(module.parameters()):
            parameter.copy_(size * sample(*parameter.shape, seed=seed))
    return module


def built(name: str) -> Any:
    return vivid(ENCODINGS[name]())


def decoder(encoding: Encoding | list[Encoding], *, layers: int = 2, **options: Any) -> Decoder:
    """Its encoding's parameters and its own such that attention is far from even."""
    model = vivid(Decoder(50, DIM, layers=layers, heads=HEADS, hidden=DIM, encoding=encoding, **options), 0.2)
    with torch.no_grad():
        for norm in (module for module in model.modules() if isinstance(module, nn.RMSNorm)):
            norm.weight.add_(1.0)
    return model


def tokens(batch: int, length: int) -> Tensor:
    return torch.randint(50, (batch, length), generator=torch.Generator().manual_seed(length))


def forget_tables() -> None:
    """What functions keep from one call to the next, so that it is made anew under other circumstances."""
    for kept in vars(t5).values():
        if hasattr(kept, "cache_clear"):
            kept.cache_clear()


def answers(encoding: Encoding, where: Tensor, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """What is said at the doors: embed, rotate's two, then a bias or a relation where there is one."""
    tokens, device = where.shape[-1], where.device
    x, q, k = sample(2, tokens, DIM), sample(2, HEADS, tokens, WIDTH, seed=1), sample(2, HEADS, tokens, WIDTH, seed=2)
    weights = sample(2, HEADS, tokens, tokens, seed=3).softmax(-1)
    x, q, k, weights = (given.to(device, dtype) for given in (x, q, k, weights))
    found = [encoding.embed(x, where), *encoding.rotate(q, k, where, where), encoding.bias(where, where)]
    found += [encoding.relation(q, k, where, where), encoding.relation_values(weights, where, where)]
    return [answer for answer in found if answer is not None]


def attended(
    encoding: Encoding, x: Tensor, where: Tensor | None = None, *, kv_heads: int = HEADS, **options: Any
) -> Any:
    """x [B, T, DIM] with position entering at whichever door: the input's, then those of attention."""
    x = encoding.embed(x, positions.arange(x.shape[1], device=x.device) if where is None else where)
    q, k, v = (y.unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) for y in (x, x.flip(-1), x.roll(9, -1)))
    options = {"causal": True, "q_positions": where, "k_positions": where} | options
    return attend(q, k[:, :kv_heads], v[:, :kv_heads], encoding=encoding, **options)
