"""Every encoding, for 4 heads of width 16, with parameters so large that a wrong one shows."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

from ropewalk.modules import (
    ALiBi,
    CoPE,
    DualChunk,
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
)
from ropewalk.scaling import DynamicNTK, YaRN
from ropewalk.verify.samples import sample

Module = TypeVar("Module", bound=nn.Module)
HEADS, WIDTH, DIM = 4, 16, 64

MAKERS: dict[str, Callable[[], Encoding]] = {
    "no encoding": NoPE,
    "sinusoidal": lambda: Sinusoidal(DIM),
    "learned": lambda: Learned(64, DIM),
    "rotary": lambda: Rotary(WIDTH),
    "rotary, yarn": lambda: Rotary(WIDTH, layout="interleaved", scaling=YaRN(factor=4.0, original_length=8)),
    "rotary, dynamic": lambda: Rotary(WIDTH, rotary_dim=8, scaling=DynamicNTK(factor=4.0, original_length=8)),
    "xpos": lambda: XPos(WIDTH, scale_base=20.0),
    "alibi": lambda: ALiBi(HEADS),
    "t5": lambda: T5Bias(HEADS, buckets=8, max_distance=10),
    "kerple": lambda: Kerple(HEADS),
    "sandwich": lambda: Sandwich(HEADS),
    "fire": lambda: Fire(HEADS, threshold=6.0),
    "shaw": lambda: Shaw(WIDTH, max_distance=4),
    "transformer-xl": lambda: TransformerXL(WIDTH, HEADS),
    "cope": lambda: CoPE(WIDTH, max_position=4),
    "self-extend": lambda: SelfExtend(Rotary(WIDTH), group=3, window=4),
    "dual chunk": lambda: DualChunk(Rotary(WIDTH), chunk_size=6, local_size=2),
}
PLACED = ("fire", "self-extend", "dual chunk")  # these see where a pair stands, beside its distance
RELATIVE = tuple(name for name in MAKERS if name not in ("no encoding", "sinusoidal", "learned", *PLACED))


def built(name: str) -> Encoding:
    """The encoding of that name."""
    return vivid(MAKERS[name](), 1.0)


def vivid(module: Module, size: float) -> Module:
    """`module` with normal parameters of that size, the same in every run."""
    with torch.no_grad():
        for seed, parameter in enumerate(module.parameters()):
            parameter.copy_(size * sample(*parameter.shape, seed=seed))
    return module
