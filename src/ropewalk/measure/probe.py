"""The gapped probe: what far positions do to a model, for the price of a short pass."""

import torch
from torch import Tensor

from ropewalk._errors import RopewalkError
from ropewalk.measure.losses import LanguageModel, row_losses

WARM_UP = 16  # tokens after the gap that are not scored: their nearest context lies across it


def gapped_loss(model: LanguageModel, tokens: Tensor, span: int, *, head: int = 512) -> float:
    """The mean loss of passages after a jump in the positions, nats a token.

    The first `head` tokens stand at positions 0 .. head-1, the rest are moved so that the last stands at
    span-1. It shows out-of-range distances, not crowding by `span` real keys: it tells what breaks from what does
    not, for the price of a short pass.

    Args:
        model: hidden states and output layer; it must not take the jump for a border between documents.
        tokens: [B, T] of running text, T at most `span`.
        span: the length whose farthest positions are probed; T itself means no gap.
        head: tokens before the jump.

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
    return float(losses[:, first:].mean(dtype=torch.float64))
