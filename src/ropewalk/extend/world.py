"""The processes of one run, as torchrun starts them; most often one alone."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from torch import distributed

from ropewalk._errors import RopewalkError

Value = TypeVar("Value")
PATIENCE = timedelta(days=7)  # a rank that ends is noticed at once, and one that computes may take its time


@dataclass(frozen=True)
class World:
    """`size` processes, of which this one is number `rank`. Values travel by pickle, between processes of one run."""

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that writes and prints."""
        return self.rank == 0

    def of_first(self, value: Value) -> Value:
        """The value that the first rank gave."""
        return self.of_all(value if self.is_first else None)[0]  # type: ignore[return-value]

    def of_all(self, value: Value) -> list[Value]:
        """The value that each rank gave, in their order.

        Raises:
            RopewalkError: another rank has ended.
        """
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        try:
            distributed.all_gather_object(found, value)
        except RuntimeError as error:
            raise RopewalkError("another rank of this run has ended; what it said is above or below") from error
        return found


ALONE = World()


@contextmanager
def ranks() -> Iterator[World]:
    """The ranks that torchrun started, or this process alone.

    They talk by gloo whatever they compute on: what they exchange are losses, which lie in the CPU's memory.
    """
    if not distributed.is_torchelastic_launched() or os.environ["WORLD_SIZE"] == "1":
        yield ALONE
        return
    distributed.init_process_group("gloo", timeout=PATIENCE)
    try:
        yield World(distributed.get_rank(), distributed.get_world_size())
    finally:
        distributed.destroy_process_group()
