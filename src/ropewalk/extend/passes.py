"""Every pass of a measurement goes through here: taken over where it is kept, else computed, kept and told of."""

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from ropewalk.extend.kept import Kept
from ropewalk.extend.progress import Cost, Meter, Progress
from ropewalk.extend.world import ALONE, World
from ropewalk.measure.losses import Pass
from ropewalk.scaling import Scaled


class Passes:
    """What `LanguageModel.around` is while a plan is measured.

    Ranks take a pass each at a time, and then all have all of them: whatever is decided from them is decided alike.
    The first rank keeps them and tells of them.

    A pass is known by its tokens, their positions and the rotation of the model: what else its losses depend on
    holds for all passes of a run, and `keeping` sees to it.

    Args:
        kept: where finished passes are; None keeps nothing.
        told: called as each pass begins, and when it has ended; of several ranks, as each of them begins one.
        world: the ranks at work.

    Attributes:
        taken_over: seconds that earlier runs spent on passes that this one took over.
    """

    def __init__(self, kept: Kept | None = None, told: Progress = lambda step: None, world: World = ALONE) -> None:
        self.taken_over = 0.0
        self._kept, self._told, self._world = kept, told, world
        self._cost, self._meter = Cost(1.0, 0.0), Meter({})
        self._method, self._row, self._of, self._where, self._seen = "", "", 1, "", 0
        self._rotation = b"own"

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
    def under(self, frequencies: Scaled, positions: str = "") -> Iterator[None]:
        """The model has these frequencies, and not its own; and other positions, which their name tells."""
        factor = torch.tensor(frequencies.attention_factor, dtype=torch.float64)
        known = _bytes(frequencies.inv_freq.float()) + _bytes(factor) + positions.encode()
        before, self._rotation = self._rotation, known
        try:
            yield
        finally:
            self._rotation = before

    def __call__(self, passes: Sequence[Pass]) -> list[Tensor]:
        """What is left of each pass, from where it is kept or from its `compute`."""
        size = self._world.size
        rounds = [passes[start : start + size] for start in range(0, len(passes), size)]
        return [losses for each in rounds for losses in self._round(each)]

    def _round(self, passes: Sequence[Pass]) -> list[Tensor]:
        """At most one pass a rank."""
        part = self._part(sum(len(each.tokens) for each in passes))
        self._told(self._meter.step(self._method, part))
        names = [self._name(each.tokens, each.positions) for each in passes]
        held = dict[int, tuple[Tensor, float]]()
        if self._kept:
            held = {i: found for i, name in enumerate(names) if (found := self._kept.find(name))}
        held = self._world.of_first(held)
        self.taken_over += sum(seconds for _, seconds in held.values())
        made = self._made({i: each for i, each in enumerate(passes) if i not in held})
        if self._kept:
            for i, (losses, seconds) in made.items():
                self._kept.keep(names[i], losses, seconds)
        self._meter.passed(self._method, sum(self._work(each) for each in passes))
        self._told(self._meter.step(self._method, part))
        return [(held | made)[i][0] for i in range(len(passes))]

    def _made(self, missing: dict[int, Pass]) -> dict[int, tuple[Tensor, float]]:
        """What is left of each, computed by one of the ranks, and the seconds it took: of ranks at once, its share."""
        if not missing:
            return {}
        started = time.monotonic()
        mine = list(missing)[self._world.rank :: self._world.size]
        made = {
            i: losses
            for each in self._world.of_all({i: missing[i].compute() for i in mine})
            for i, losses in each.items()
        }
        seconds = time.monotonic() - started
        work = sum(self._work(each) for each in missing.values())
        self._meter.computed(work, sum(each.tokens.numel() for each in missing.values()), seconds)
        return {i: (losses, seconds / len(made)) for i, losses in made.items()}

    def _work(self, each: Pass) -> float:
        rows, length = each.tokens.shape
        return self._cost.of_pass(rows, length, each.pairs)

    def _part(self, rows: int) -> str:
        first, self._seen = self._seen % self._of + 1, self._seen + rows
        last = first + rows - 1
        which = f"s {first}-{last}" if last > first else f" {first}"
        return f"{self._where}{self._row}{which} of {self._of}"

    def _name(self, tokens: Tensor, positions: Tensor | None) -> str:
        known = (str(tuple(tokens.shape)).encode(), _bytes(tokens), b"" if positions is None else _bytes(positions))
        return hashlib.sha256(b"|".join((*known, self._rotation))).hexdigest()[:32]


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().numpy().tobytes()
