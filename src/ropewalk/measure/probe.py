"""The gapped probe: what far positions do to a model, for the price of a short pass."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ropewalk._errors import RopewalkError
from ropewalk.measure.losses import LanguageModel, row_losses

WARM_UP = 16  # tokens after the gap that are not scored: their nearest context lies across it


def passage_losses(model: LanguageModel, tokens: Tensor, span: int, *, head: int = 512) -> NDArray[np.float64]:
    """Mean loss of each passage after a jump in the positions, nats a token.

    The first `head` tokens stand at positions 0 .. head-1, the rest are moved so that the last stands at
    span-1. It shows out-of-range distances, not crowding by `span` real keys: what it chooses is confirmed
    by full passes.

    Args:
        model: hidden states and output layer; it must not take the jump for a border between documents.
        tokens: [B, T] of running text, T at most `span`.
        span: the length whose farthest positions are probed; T itself means no gap.
        head: tokens before the jump.

    Returns:
        float64 [B].

    Raises:
        RopewalkError: a span shorter than the tokens, or no tokens left to score after the head.
    """
    length = tokens.shape[1]
    if span < length or length - head <= WARM_UP:
        raise RopewalkError(
            f"gapped_loss: span={span}, {length} tokens, head={head}; the span is at least the tokens, "
            f"and more than {WARM_UP} of them follow the head"
        )
    positions = torch.arange(length)
    positions[head:] += span - length
    first = head + WARM_UP
    losses = row_losses(model, tokens, positions.expand_as(tokens), first=first)
    return losses[:, first:].mean(1, dtype=torch.float64).numpy()


def gapped_loss(model: LanguageModel, tokens: Tensor, span: int, *, head: int = 512) -> float:
    """The mean of `passage_losses` over all passages, nats a token."""
    return float(passage_losses(model, tokens, span, head=head).mean())


def spans(native: int, target: int) -> tuple[int, ...]:
    """The lengths that are probed: the native one, the target, and the middle between them."""
    return (native, *sorted({(native + target) // 2, target} - {native}))


def mean_and_error(values: NDArray[np.float64]) -> tuple[float, float | None]:
    """The mean over passages and its standard error; None for one passage, of which nothing can be said.

    Two methods are compared by the difference on each passage: how hard a passage is falls out of it.
    """
    count = len(values)
    return float(values.mean()), float(values.std(ddof=1) / count**0.5) if count > 1 else None
