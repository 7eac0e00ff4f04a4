"""Every pass of a measurement goes through here: taken over where it is kept, else computed, kept and told of."""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from ropewalk.extend.kept import Kept
from ropewalk.extend.progress import Cost, Meter, Progress
from ropewalk.scaling import Scaled


class Passes:
    """What `LanguageModel.around` is while a plan is measured.

    A pass is known by its tokens, their positions and the frequencies of the model: what else its losses depend on
    holds for all passes of a run, and `keeping` sees to it.

    Args:
        kept: where finished passes are; None keeps nothing.
        told: called as each pass begins, and when it has ended.

    Attributes:
        taken_over: seconds that earlier runs spent on passes that this one took over.
    """

    def __init__(self, kept: Kept | None = None, told: Progress = lambda step: None) -> None:
        self.taken_over = 0.0
        self._kept, self._told = kept, told
        self._cost, self._meter = Cost(1.0, 0.0), Meter({})
        self._method, self._row, self._of, self._where, self._seen = "", "", 1, "", 0
        self._frequencies = b"own"

    def expect(self, cost: Cost, work: dict[str, float]) -> None:
        """Before the first pass: what passes cost, and the work of each method."""
        self._cost, self._meter = cost, Meter(work)

    @contextmanager
    def of_method(self, name: str) -> Iterator[None]:
        """What passes here is of this method; at the end none of its work is left."""
        self._method = name
        yield
        self._meter.left.pop(name, None)

    def over(self, row: str, count: int, where: str = "") -> None:
        """What follows goes over so many rows, such as documents, once or again and again."""
        self._row, self._of, self._where, self._seen = row, count, where, 0

    @contextmanager
    def under(self, frequencies: Scaled) -> Iterator[None]:
        """The model has these frequencies, and not its own."""
        factor = torch.tensor(frequencies.attention_factor, dtype=torch.float64)
        before, self._frequencies = self._frequencies, _bytes(frequencies.inv_freq.float()) + _bytes(factor)
        try:
            yield
        finally:
            self._frequencies = before

    def __call__(self, tokens: Tensor, positions: Tensor | None, compute: Callable[[], Tensor]) -> Tensor:
        """The losses of a pass over `tokens` [B, T], from where they are kept or from `compute`."""
        part, work = self._part(len(tokens)), self._cost.of_pass(*tokens.shape)
        self._told(self._meter.step(self._method, part))
        name = self._name(tokens, positions)
        found = self._kept.find(name) if self._kept else None
        if found is None:
            started = time.monotonic()
            losses = compute()
            seconds = time.monotonic() - started
            self._meter.computed(work, tokens.numel(), seconds)
            if self._kept:
                self._kept.keep(name, losses, seconds)
        else:
            losses, seconds = found
            self.taken_over += seconds
        self._meter.passed(self._method, work)
        self._told(self._meter.step(self._method, part))
        return losses

    def _part(self, rows: int) -> str:
        first, self._seen = self._seen % self._of + 1, self._seen + rows
        last = first + rows - 1
        which = f"s {first}-{last}" if last > first else f" {first}"
        return f"{self._where}{self._row}{which} of {self._of}"

    def _name(self, tokens: Tensor, positions: Tensor | None) -> str:
        known = (str(tuple(tokens.shape)).encode(), _bytes(tokens), b"" if positions is None else _bytes(positions))
        return hashlib.sha256(b"|".join((*known, self._frequencies))).hexdigest()[:32]


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().numpy().tobytes()
