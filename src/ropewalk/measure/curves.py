"""Loss against position: one pass a document, one pass a bucket end, or the last native window only."""

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ropewalk.measure.losses import LanguageModel, row_losses


@dataclass(frozen=True)
class Curve:
    """Losses of the same tokens under one method.

    Attributes:
        losses: float32 [N, length], nats; NaN where a token was not scored.
        edges: bucket borders: bucket i holds positions edges[i] .. edges[i + 1] - 1.
    """

    losses: NDArray[np.float32]
    edges: tuple[int, ...]

    def means(self) -> NDArray[np.float64]:
        """Mean loss of each bucket, every token weighing the same: [buckets]."""
        return np.array([np.nanmean(part, dtype=np.float64) for part in self.parts()])

    def parts(self) -> list[NDArray[np.float32]]:
        """The losses of each bucket, [N, width] each."""
        return [self.losses[:, start:end] for start, end in itertools.pairwise(self.edges)]

    def buckets(self) -> list[dict[str, float | int]]:
        """The curve as the JSON of the command line has it."""
        return [
            {
                "start": start,
                "end": end,
                "nll": float(nll),
                "perplexity": float(np.exp(nll)),
                "tokens": int((~np.isnan(part)).sum()),
                "documents": len(part),
            }
            for (start, end), part, nll in zip(itertools.pairwise(self.edges), self.parts(), self.means(), strict=True)
        ]


def bucket_edges(native: int, target: int) -> tuple[int, ...]:
    """Borders every native/8 positions up to `target`; the last bucket may be shorter."""
    width = max(1, native // 8)
    return (*range(0, target, width), target)


def full_curve(model: LanguageModel, tokens: Tensor, edges: tuple[int, ...]) -> Curve:
    """One pass over each document; every bucket comes from it. For frequencies that ignore the length."""
    return Curve(row_losses(model, tokens).numpy(), edges)


def per_length_curve(
    model: LanguageModel,
    tokens: Tensor,
    edges: tuple[int, ...],
    at_length: Callable[[int], AbstractContextManager[object]],
) -> Curve:
    """One pass a bucket end, under the frequencies of that length. For length-dependent methods.

    `at_length(n)` is a context in which `model` has the frequencies of a sequence of n tokens.
    """
    losses = np.full(tokens.shape, np.nan, dtype=np.float32)
    for start, end in itertools.pairwise(edges):
        with at_length(end):
            losses[:, start:end] = full_curve(model, tokens[:, :end], (0, end)).losses[:, start:end]
    return Curve(losses, edges)


def crop_curve(model: LanguageModel, tokens: Tensor, edges: tuple[int, ...], native: int) -> tuple[Curve, float]:
    """Each token scored with the last native-length context only.

    Windows of `native` tokens advance by native/8 and score what is new; the first scores all it holds.

    Returns:
        The curve, and the mean context of the tokens past the native length.
    """
    length, step = tokens.shape[1], max(1, native // 8)
    losses = np.full(tokens.shape, np.nan, dtype=np.float32)
    losses[:, :native] = full_curve(model, tokens[:, :native], edges).losses
    contexts: list[int] = []
    for start in range(native, length, step):
        end = min(start + step, length)
        window = full_curve(model, tokens[:, end - native : end], edges).losses
        losses[:, start:end] = window[:, native - (end - start) :]
        contexts += range(native - (end - start), native)
    return Curve(losses, edges), float(np.mean(contexts)) if contexts else float("nan")
