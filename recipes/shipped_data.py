"""What the model that ships is trained on: text, and dense copying at distances spread over its context."""

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int64]


class Rows:
    """Draws training rows of `length` tokens.

    Args:
        text: bytes to cut windows from.
        length: tokens in a row.
        seed: of all draws.
    """

    def __init__(self, text: bytes, length: int, seed: int) -> None:
        self.text = np.frombuffer(text, dtype=np.uint8).astype(np.int64)
        self.alphabet = np.unique(self.text)
        self.length = length
        self.rng = np.random.default_rng(seed)

    def batch(self, rows: int, copying: float) -> Tokens:
        """[rows, length]; a share `copying` of the rows repeats unguessable strings."""
        copied = round(rows * copying)
        kinds = [self.repeats if i % 2 else self.quotes for i in range(copied)] + [self.window] * (rows - copied)
        return np.stack([kind() for kind in kinds])

    def window(self) -> Tokens:
        """Text as it stands."""
        start = self.rng.integers(len(self.text) - self.length)
        return self.text[start : start + self.length].copy()

    def repeats(self) -> Tokens:
        """One unguessable string over and over; its length, the distance of copying, is log-uniform."""
        period = int(np.exp(self.rng.uniform(np.log(8), np.log(self.length * 0.9))))
        return np.resize(self.rng.choice(self.alphabet, period), self.length)

    def quotes(self) -> Tokens:
        """Text whose first half holds unguessable strings that return, one distance later, in what follows."""
        row = self.window()
        distance = int(self.rng.integers(32, self.length - 16))
        block = min(distance, self.length - distance)
        strings = self.rng.choice(self.alphabet, block)
        keep = np.repeat(self.rng.random(-(-block // 16)) < 0.3, 16)[:block]  # blocks of 16 that stay text
        strings = np.where(keep, row[:block], strings)
        start = self.length - distance - block
        row[start : start + block] = strings
        row[start + distance :] = np.where(keep, row[start + distance :], strings)
        return row
