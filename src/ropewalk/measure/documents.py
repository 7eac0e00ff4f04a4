"""The text that is measured: stretches of equal length cut from longer documents."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ropewalk._errors import RopewalkError


@dataclass(frozen=True)
class Documents:
    """Stretches of `length` tokens, each measured on its own.

    Attributes:
        tokens: int64 [N, length].
        sources: for each stretch, the document it was cut from and its first token there, as "name@start".
    """

    tokens: Tensor
    sources: tuple[str, ...]

    def __len__(self) -> int:
        return self.tokens.shape[0]

    @property
    def length(self) -> int:
        """Tokens in each stretch."""
        return self.tokens.shape[1]

    @classmethod
    def cut(cls, texts: Sequence[tuple[str, Tensor]], length: int, limit: int) -> "Documents":
        """Cut (name, tokens [T]) pairs into at most `limit` stretches, spread evenly over all that there are.

        Raises:
            RopewalkError: a document shorter than `length`.
        """
        stretches: list[tuple[str, Tensor]] = []
        for name, tokens in texts:
            if len(tokens) < length:
                raise RopewalkError(
                    f"{name}: {len(tokens)} tokens, shorter than the {length} tokens to be measured; "
                    "give longer documents or a shorter length"
                )
            starts = range(0, len(tokens) - length + 1, length)
            stretches += [(f"{name}@{start}", tokens[start : start + length]) for start in starts]
        chosen = [stretches[i * len(stretches) // limit] for i in range(limit)] if limit < len(stretches) else stretches
        return cls(torch.stack([tokens for _, tokens in chosen]), tuple(name for name, _ in chosen))


def batches(rows: int, length: int, tokens_at_once: int) -> Iterable[slice]:
    """Slices of rows, so that a batch holds about `tokens_at_once` tokens and at least one row."""
    size = max(1, tokens_at_once // length)
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))
