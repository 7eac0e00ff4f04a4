"""Reading, as opposed to losing less: is a copy of unguessable text predicted from its original?

A model that looks at its last 64 tokens has a flat loss at any length; only a copy shows whether it reads.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ropewalk.measure.losses import LanguageModel, row_losses

STRING = 16  # tokens in an unguessable string
SKIPPED = 4  # at its start, where nothing yet says which string is being copied
SHORTEST = 4 * STRING  # a sequence that holds one string and one control, at both ends
GAIN = 1.0  # nats a token


@dataclass(frozen=True)
class Reading:
    """The gain at one distance.

    Attributes:
        distance: tokens between a string and its copy.
        context: tokens in the whole sequence.
        gain: mean loss of strings without an original minus that of copies, in the same places, nats a token.
        strings: how many copies were scored.
    """

    distance: int
    context: int
    gain: float
    strings: int


def contexts(native: int, target: int) -> list[int]:
    """The lengths at which reading is measured: every half of the native length, every quarter of a short one.

    None is too short for a string, its copy and a control.
    """
    step = max(1, native // 4 if native <= 1024 else native // 2)
    return [context for context in (*range(step, target, step), target) if context >= SHORTEST]


def measure_reading(model: LanguageModel, documents: Tensor, context: int, *, trials: int, seed: int = 0) -> Reading:
    """The gain of copies over as many strings without an original, at a distance of nearly `context`.

    A sequence is text whose head holds m strings and whose tail holds their copies, both spaced alike, so that
    all copies stand at one distance; between the copies stand m strings that occurred nowhere, the control.
    Strings are drawn uniformly from the tokens that the documents hold.

    Args:
        model: hidden states and output layer.
        documents: [N, at least context], the text around the strings.
        context: length of the sequences, at least `SHORTEST`.
        trials: sequences, each with other text and strings.
    """
    rng, alphabet = np.random.default_rng((seed, context)), np.unique(documents.numpy())
    pairs = max(1, min(16, context // (32 * STRING)))  # few, so that the distance is nearly the context
    texts = (documents[i % len(documents), :context] for i in range(trials))
    tokens = torch.stack([_sequence(text, pairs, alphabet, rng) for text in texts])
    losses = row_losses(model, tokens)
    tail = losses[:, context - 2 * pairs * STRING :].numpy().reshape(trials, pairs, 2, STRING)[..., SKIPPED:]
    gain = float(tail[:, :, 1].mean(dtype=np.float64) - tail[:, :, 0].mean(dtype=np.float64))
    return Reading(context - 2 * pairs * STRING, context, gain, trials * pairs)


def reads_to(readings: list[Reading]) -> int:
    """The farthest distance up to which every measured one gains at least 1 nat; 0 where the first fails."""
    reached = 0
    for reading in readings:
        if not reading.gain >= GAIN:
            break
        reached = reading.distance
    return reached


def _sequence(text: Tensor, pairs: int, alphabet: NDArray[np.int64], rng: np.random.Generator) -> Tensor:
    """`text` with `pairs` strings in its head, and in its tail their copies, each followed by a control."""
    tokens, block = text.numpy().copy(), 2 * pairs * STRING
    strings = rng.choice(alphabet, (pairs, 2, STRING))  # [:, 0] is copied, [:, 1] is the control
    head = tokens[:block].reshape(pairs, 2, STRING)
    head[:, 0] = strings[:, 0]
    tokens[len(tokens) - block :] = strings.reshape(-1)
    return torch.from_numpy(tokens)
