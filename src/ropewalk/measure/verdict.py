"""From curves to a verdict: how far a method holds, and what it costs on short text."""

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ropewalk.measure.curves import Curve

TOLERANCE = 0.10  # nats a token
RESAMPLES = 1000
INTERVAL = (2.5, 97.5)  # percentiles
FEW_DOCUMENTS = 40  # under so many, blocks of tokens are resampled in place of documents
BLOCK, BLOCKS = 1024, 8  # tokens in a block, at most, and blocks in a bucket, at least


@dataclass(frozen=True)
class Verdict:
    """What the curves of one method say.

    Attributes:
        excess: mean loss minus crop's, a bucket, nats.
        excess_low, excess_high: 95 % bootstrap interval of each bucket's excess, of the same draws as holds_to's.
        holds_to: the end of the last bucket, counted on from the native length, whose excess is in tolerance.
        low, high: 95 % bootstrap interval of holds_to.
        short_cost: mean loss minus the unscaled model's within the native length, nats.
    """

    excess: NDArray[np.float64]
    excess_low: NDArray[np.float64]
    excess_high: NDArray[np.float64]
    holds_to: int
    low: int
    high: int
    short_cost: float


def judge(
    method: Curve, crop: Curve, none: Curve, native: int, *, tolerance: float = TOLERANCE, seed: int = 0
) -> Verdict:
    """Hold a method's curve against crop's past the native length and against the unscaled one within it.

    Source: the definitions of crop, excess, holds_to and short_cost in docs/measuring.md.
    """
    difference = method.losses.astype(np.float64) - crop.losses
    sums, counts = _units(difference, method.edges)
    excess = sums.sum(0) / counts.sum(0)
    draws = _resampled(sums, counts, seed)
    reaches = [holds_to(row, method.edges, native, tolerance) for row in draws]
    low, high = np.percentile(reaches, INTERVAL, method="nearest")
    excess_low, excess_high = np.percentile(draws, INTERVAL, axis=0)
    reached, cost = holds_to(excess, method.edges, native, tolerance), short_cost(method, none, native)
    return Verdict(excess, excess_low, excess_high, reached, int(low), int(high), cost)


def short_cost(method: Curve, none: Curve, length: int) -> float:
    """What texts of `length` tokens pay: mean loss above the unscaled model's over as many first tokens, nats.

    The first `length` tokens of a stretch are a text of that length: nothing after them is seen. Static methods
    have one set of frequencies for all lengths.
    """
    return float(np.nanmean(method.losses[:, 1:length].astype(np.float64) - none.losses[:, 1:length]))


def holds_to(excess: NDArray[np.float64], edges: tuple[int, ...], native: int, tolerance: float) -> int:
    """The end of the last contiguous bucket past the native length whose excess is at most `tolerance`."""
    reached = native
    for value, end in zip(excess, edges[1:], strict=True):
        if end <= native:
            continue
        if not value <= tolerance:  # so that a NaN ends it too
            break
        reached = end
    return reached


def resampling_unit(documents: int, bucket: int) -> str:
    """What the bootstrap draws, said in every result: documents, or with few of them, blocks within a bucket."""
    return "documents" if documents >= FEW_DOCUMENTS else f"blocks of {_block(bucket)} tokens"


def _block(bucket: int) -> int:
    return max(1, min(BLOCK, bucket // BLOCKS))


def _units(difference: NDArray[np.float64], edges: tuple[int, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums and counts of each bucket in each unit that is resampled: [units, buckets] both.

    With few documents the units are blocks within a bucket, so that unit j of one bucket and of another are
    unrelated: neighbouring tokens stay together, distant ones count as independent.
    """
    rows, split = difference.shape[0], 1
    if rows < FEW_DOCUMENTS:
        bucket = int(np.diff(edges).max())
        split = bucket // _block(bucket)
    sums, counts = np.zeros((rows * split, len(edges) - 1)), np.zeros((rows * split, len(edges) - 1))
    for bucket, (start, end) in enumerate(itertools.pairwise(edges)):
        for block, part in enumerate(np.array_split(difference[:, start:end], split, axis=1)):
            units = slice(block * rows, (block + 1) * rows)
            sums[units, bucket], counts[units, bucket] = np.nansum(part, 1), (~np.isnan(part)).sum(1)
    return sums, counts


def _resampled(sums: NDArray[np.float64], counts: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Bucket means of `RESAMPLES` draws of the units, with replacement: [draws, buckets]."""
    rng = np.random.default_rng(seed)
    units = len(sums)
    weights = rng.multinomial(units, np.full(units, 1 / units), size=RESAMPLES)
    return (weights @ sums) / np.maximum(weights @ counts, 1)
