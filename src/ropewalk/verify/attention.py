"""Checks of attention that need no second implementation: what order and distance do to it."""

from itertools import product
from typing import Any

import torch
from torch import Tensor

from ropewalk import positions
from ropewalk.attention import attend
from ropewalk.verify.check import Check
from ropewalk.verify.encodings import DIM, HEADS, MAKERS, RELATIVE, WIDTH, built
from ropewalk.verify.samples import apart, relative, sample, worst

TOKENS = 24
ORDER = torch.randperm(TOKENS, generator=torch.Generator().manual_seed(1))
LEAST = 0.1  # what counts as another output, where outputs are of size 1


def attended(name: str, x: Tensor, *, offset: int = 0, causal: bool = True, **options: Any) -> Tensor:
    """Attention of x [1, T, DIM] to itself under the encoding `name`, whichever its door; [1, H, T, WIDTH]."""
    encoding, where = built(name), positions.arange(x.shape[1], offset)
    x = encoding.embed(x, where)
    q, k, v = (y.unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) for y in (x, x.roll(9, -1), x.roll(23, -1)))
    options = {"q_positions": where, "k_positions": where, **options}
    out = attend(q, k[:, :2], v[:, :2], causal=causal, encoding=encoding, **options)
    assert isinstance(out, Tensor)
    return out


def shuffled(name: str, *, causal: bool = False) -> float:
    """The output of shuffled tokens against the shuffled output."""
    x = sample(1, TOKENS, DIM)
    return apart(attended(name, x[:, ORDER], causal=causal), attended(name, x, causal=causal)[:, :, ORDER])


def no_order() -> float:
    """Without an encoding and a mask."""
    return shuffled("no encoding")


def causal_order() -> float:
    """What the change that a causal mask brings falls short of LEAST."""
    return worst((0.0, LEAST - shuffled("no encoding", causal=True)))


def encodings_order() -> float:
    """What the change that any encoding brings falls short of LEAST."""
    return worst((0.0, *(LEAST - shuffled(name) for name in MAKERS if name != "no encoding")))


def distance_alone() -> float:
    """The output of the same tokens, moved by 10,000 positions."""
    x = sample(1, TOKENS, DIM)
    moved, kept = ({name: attended(name, x, offset=by, length=TOKENS) for name in RELATIVE} for by in (10_000, 0))
    return worst(apart(moved[name], kept[name]) for name in RELATIVE)


def backends() -> float:
    """torch's fused kernel against the plain formula in our own code, where both can run."""
    x, errors = sample(1, TOKENS, DIM), []
    calls: tuple[dict[str, Any], ...] = (
        {"causal": True}, {"causal": False}, {"window": 5}, {"key_mask": torch.arange(TOKENS)[None] > 2},
    )  # fmt: skip
    for name, call in product(MAKERS, calls):
        if "relation" not in MAKERS[name]().doors:  # which no kernel expresses
            fused, plain = (attended(name, x, backend=backend, **call) for backend in ("sdpa", "reference"))
            errors.append(relative(fused, plain))
    return worst(errors)


CHECKS = (
    Check(
        "attention: no order",
        "Without positions and mask attention does not know order: shuffled tokens give the shuffled output.",
        "identity",
        2e-6,
        no_order,
    ),
    Check(
        "attention: mask",
        f"A causal mask alone tells order: shuffling changes the output by {LEAST} or more (error: what is missing).",
        "identity",
        0.0,
        causal_order,
    ),
    Check(
        "attention: positions",
        f"So does any encoding, without a mask: the output changes by {LEAST} or more (error: what is missing).",
        "identity",
        0.0,
        encodings_order,
    ),
    Check(
        "attention: distance",
        "Under every relative encoding, all but FIRE, nothing changes when all tokens move by 10,000 positions.",
        "identity",
        5e-6,
        distance_alone,
    ),
    Check(
        "attention: backends",
        "torch's fused kernel gives what the formula gives: causal or not, windowed, padded.",
        "identity",
        5e-6,
        backends,
    ),
)
