"""Loss by position, in memory that grows with the length and not with length x vocabulary."""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ropewalk._errors import RopewalkError
from ropewalk.measure.documents import batches

CHUNK = 1024  # positions whose logits exist at one time
TOKENS_AT_ONCE = 8192


class Pass(NamedTuple):
    """One pass through a model that is still to be made.

    Attributes:
        tokens: [B, T].
        positions: [B, T], None for 0 .. T-1.
        compute: makes it, and returns the small tensor that is left of it.
        pairs: of a token and one that it sees; None where each sees those before it in its row.
    """

    tokens: Tensor
    positions: Tensor | None
    compute: Callable[[], Tensor]
    pairs: int | None = None


# Called with passes of which none needs another: to watch them, to know some already, to share them out.
Around = Callable[[Sequence[Pass]], list[Tensor]]


def _computed(passes: Sequence[Pass]) -> list[Tensor]:
    return [each.compute() for each in passes]


class LanguageModel(NamedTuple):
    """A causal language model, as callables.

    Attributes:
        hidden: (tokens [B, T], positions [B, T] or None) -> last hidden states [B, T, C].
        head: hidden states [..., C] -> logits [..., V].
        around: passes -> what `compute` of each would return, such as the losses of `token_losses`.
    """

    hidden: Callable[[Tensor, Tensor | None], Tensor]
    head: Callable[[Tensor], Tensor]
    around: Around = _computed


def token_losses(
    model: LanguageModel, tokens: Tensor, positions: Tensor | None = None, *, chunk: int = CHUNK, first: int = 1
) -> Tensor:
    """The loss of each token given all before it.

    Args:
        model: hidden states and output layer.
        tokens: [B, T], T at least 2.
        positions: [B, T] integers; left out, 0 .. T-1.
        chunk: positions whose logits are held at once.
        first: the first token that is scored, at least 1; those before it cost no logits.

    Returns:
        float32 [B, T], nats; column t is the loss of token t. Columns before `first` are NaN; 0 has no context.

    Raises:
        RopewalkError: a loss that is not finite; the message names the first position.
    """
    compute = functools.partial(_losses, model, tokens, positions, chunk, first)
    return model.around([Pass(tokens, positions, compute)])[0]


def row_losses(model: LanguageModel, tokens: Tensor, positions: Tensor | None = None, *, first: int = 1) -> Tensor:
    """`token_losses` in passes of about `TOKENS_AT_ONCE` tokens, which `around` is given together."""
    passes = []
    for rows in batches(len(tokens), tokens.shape[1], TOKENS_AT_ONCE):
        some, where = tokens[rows], None if positions is None else positions[rows]
        passes.append(Pass(some, where, functools.partial(_losses, model, some, where, CHUNK, first)))
    return torch.cat(model.around(passes))


def _losses(model: LanguageModel, tokens: Tensor, positions: Tensor | None, chunk: int, first: int) -> Tensor:
    losses = torch.full(tokens.shape, torch.nan)
    with torch.inference_mode():
        states = model.hidden(tokens, positions)
        for start in range(first - 1, tokens.shape[1] - 1, chunk):
            end = min(start + chunk, tokens.shape[1] - 1)
            logits = model.head(states[:, start:end]).float()
            targets = tokens[:, start + 1 : end + 1].to(logits.device)
            losses[:, start + 1 : end + 1] = cross_entropy(logits.transpose(1, 2), targets, reduction="none").cpu()
    _refuse_no_numbers(losses, first)
    return losses


def _refuse_no_numbers(losses: Tensor, start: int) -> None:
    """A NaN would pass for a token that was not scored, and an infinity would hide all else in its bucket."""
    broken = ~losses[:, start:].isfinite()
    if broken.any():
        first = int(broken.any(0).nonzero()[0]) + start
        raise RopewalkError(
            f"the model's loss is not a finite number from position {first} on; its weights are damaged, or its "
            "precision does not carry so far"
        )
