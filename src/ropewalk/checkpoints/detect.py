"""`detect_layout`: which features a loaded model pairs, by its code and by its weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ropewalk.checkpoints.pairing import code_layout, turned
from ropewalk.functional.rotary import LAYOUTS

LENGTH, ROWS, USUAL, FIRST = 32, 8, 64, 256  # tokens that are repeated, how often, of how many kinds; single tokens
NATS = 1.0  # a token, by which a pairing has to read better than the other


@dataclass(frozen=True)
class DetectedLayout:
    """The pairing of a model: "half" or "interleaved".

    Attributes:
        code: of the model's own rotation, as it runs.
        weights: that with which its weights read; None where they do not tell.
        gains: what reading gains under each pairing, nats a token.
    """

    code: str
    weights: str | None
    gains: Mapping[str, float] = field(hash=False)


def detect_layout(model: nn.Module) -> DetectedLayout:
    """The pairing of a loaded transformers model's code, and the one that its weights were trained with.

    The code is told by what its own rotation does to random numbers. The weights are told by reading: 32 tokens drawn
    from the 64 that the model expects most, then the same 32 again. Whoever copies predicts the second half better, and
    copying takes a head that finds the token before, by its position: under the wrong pairing it does not. Where no
    pairing gains 1 nat a token more than the other (random weights, models that do not copy), `weights` is None.

    Args:
        model: one whose attention calls `apply_rotary_pos_emb(q, k, cos, sin)`, as `patch` takes; with an output layer
            for `weights`. It is left as it was.

    Raises:
        VerificationError: a model whose rotation is no such call.

    Example:
        >>> from ropewalk.checkpoints.load import SHIPPED, load
        >>> found = detect_layout(load(SHIPPED).model)
        >>> found.code, found.weights
        ('half', 'half')

    Source: the repeated random sequence is that by which Olsson et al. 2022 (arXiv 2209.11895) find induction heads;
        theirs are of any tokens, and small models copy usual ones alone.
    """
    code = code_layout(model)
    if getattr(model, "get_output_embeddings", lambda: None)() is None:
        return DetectedLayout(code, None, {})
    gains = {}
    with torch.inference_mode():
        tokens = _repeated(model)
        for layout in LAYOUTS:
            with turned(model, layout):
                gains[layout] = _gain(model, tokens)
    best, other = sorted(gains, key=gains.__getitem__, reverse=True)
    return DetectedLayout(code, best if gains[best] - gains[other] >= NATS else None, gains)


def _repeated(model: Any) -> Tensor:
    """Sequences [B, 2 T] that say the same twice, of tokens that are usual after one other: there nothing rotates."""
    random, size = torch.Generator().manual_seed(0), model.get_output_embeddings().weight.shape[0]
    single = torch.randperm(size, generator=random)[:FIRST, None]
    usual = _logits(model, single)[:, -1].softmax(-1).mean(0).topk(min(USUAL, size)).indices.cpu()
    return usual[torch.randint(len(usual), (ROWS, LENGTH), generator=random)].repeat(1, 2)


def _gain(model: Any, tokens: Tensor) -> float:
    """By how much the second half of `tokens` is predicted better than the first."""
    losses = F.cross_entropy(_logits(model, tokens)[:, :-1].mT, tokens[:, 1:], reduction="none")
    return (losses[:, : LENGTH - 1].mean() - losses[:, LENGTH:].mean()).item()


def _logits(model: Any, tokens: Tensor) -> Tensor:
    """float32, on the CPU. The mask keeps transformers from looking for packed documents."""
    tokens = tokens.to(next(model.parameters()).device)
    return model(input_ids=tokens, attention_mask=torch.ones_like(tokens), use_cache=False).logits.float().cpu()
