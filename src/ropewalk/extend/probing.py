"""The quick way: the end of a long text under every method, after a beginning that was read once for all."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.continuing import Beginning
from ropewalk.checkpoints.load import Checkpoint
from ropewalk.extend.choose import allowed
from ropewalk.extend.measuring import Bench
from ropewalk.extend.passes import Passes
from ropewalk.extend.placing import described
from ropewalk.extend.plan import Plan
from ropewalk.extend.progress import Cost
from ropewalk.extend.remapping import Method, Remapping
from ropewalk.measure.documents import Documents
from ropewalk.measure.losses import LanguageModel, Pass, row_losses, token_losses

NOTE = "a screening: the beginning of each text is read in windows under the unscaled model, its end under each method"
PARTS = 4  # of every text that is scored: by them methods are compared


@dataclass(frozen=True)
class Probed:
    """One method on every text.

    Attributes:
        short: mean loss of each part of each short text, [texts, parts].
        end: the same of the ends, which have seen all before them.
    """

    method: str
    short: NDArray[np.float64]
    end: NDArray[np.float64]

    @property
    def score(self) -> float:
        """The mean loss of the ends. Less is better."""
        return float(self.end.mean())


@dataclass(frozen=True)
class Probing:
    """All methods of one plan on the same texts; the first is the model as it is.

    Attributes:
        windowed: as `Probed.end`, of tokens that saw the windows alone, in the unscaled model.
    """

    documents: Documents
    windowed: NDArray[np.float64]
    methods: tuple[Probed, ...]

    @property
    def ranked(self) -> list[Probed]:
        """The best first."""
        return sorted(self.methods, key=lambda probed: probed.score)

    def short_cost(self, probed: Probed) -> NDArray[np.float64]:
        """What short text costs, above the unscaled model: nats, [texts, parts]."""
        return probed.short - self.methods[0].short

    def choose(self, plan: Plan) -> str | None:
        """The best method that may be written; None where none is cheap enough on short text."""
        fit = (p.method for p in self.ranked if allowed(plan, p.method, float(self.short_cost(p).mean())))
        return next(fit, None)


def probe(plan: Plan, documents: Documents, checkpoint: Checkpoint, passes: Passes | None = None) -> Probing:
    """The model as it is and every method of `plan`: short text, and the end of each document after all of it.

    A length-dependent method has the frequencies of the target.

    Raises:
        RopewalkError: a model whose own frequencies depend on the length: its beginning has no keys that serve all.
    """
    if plan.depends_on_length(None):
        raise RopewalkError(
            f"{plan.model}: its own frequencies depend on the length ({plan.spec.scaling}), and the probe reads the "
            "beginning of a text once for all lengths; measure it by full passes"
        )
    bench = Bench(plan, documents, checkpoint, passes or Passes())
    bench.check()
    quick = Quick(bench)
    methods: dict[str, Method | None] = {"none": None, **plan.methods}
    quick.expect(tuple(methods))
    windowed = quick.windowed()
    return Probing(documents, windowed, tuple(quick.probed(*named) for named in methods.items()))


class Quick:
    """Documents whose beginnings are read when they are first asked for, and stay for all methods."""

    def __init__(self, bench: Bench) -> None:
        self._bench, self._plan, self._tokens = bench, bench.plan, bench.documents.tokens
        made = functools.partial(Beginning, bench.checkpoint, window=self._plan.probe_window, end=self._plan.probe_end)
        self._beginnings = [made(tokens=tokens) for tokens in self._tokens]
        before = self._plan.target - self._plan.probe_end
        self._pairs = self._plan.probe_end * before + self._plan.probe_end**2 // 2
        self._windowed_pairs = self._plan.target * 3 * self._plan.probe_window // 2

    def expect(self, methods: tuple[str, ...]) -> None:
        """Tell what is to come."""
        cost, rows, plan = Cost.of(self._plan.spec.config), len(self._tokens), self._plan
        each = cost.of_pass(rows, plan.probe_short) + cost.of_pass(rows, plan.probe_end, rows * self._pairs)
        beginnings = cost.of_pass(rows, plan.target, rows * self._windowed_pairs)
        self._bench.passes.expect(cost, {"windows": beginnings, **dict.fromkeys(methods, each)})

    def windowed(self) -> NDArray[np.float64]:
        """The ends in the unscaled model, each token having seen its window and the one before: [texts, parts]."""
        passes = self._bench.passes
        with passes.of_method("windows"):
            passes.over("document", len(self._tokens))
            where = torch.arange(self._tokens.shape[1])[None]
            return self._losses(self._tokens, where, lambda beginning: beginning.in_windows(), self._windowed_pairs)

    def probed(self, name: str, method: Method | None) -> Probed:
        """One method."""
        plan, passes, count = self._plan, self._bench.passes, len(self._tokens)
        with passes.of_method(name):
            passes.over("short text", count)
            with self._bench.at_length(method, plan.probe_short if plan.depends_on_length(method) else plan.target):
                short = _parts(row_losses(self._bench.model, self._tokens[:, : plan.probe_short]))
            passes.over("end of document", count)
            with self._bench.noted(method, plan.target):
                ends, where = (
                    self._tokens[:, -plan.probe_end :],
                    torch.arange(plan.target - plan.probe_end, plan.target),
                )
                end = self._losses(ends, where[None], functools.partial(self._read_on, method), self._pairs)
        return Probed(name, short, end)

    def _read_on(self, method: Method | None, beginning: Beginning) -> Tensor:
        change = functools.partial(self._bench.changed, method, self._plan.target)
        if isinstance(method, Remapping):
            return beginning.encoded(change)
        return beginning.under(method, change)

    def _losses(
        self, tokens: Tensor, positions: Tensor, states: Callable[[Beginning], Tensor], pairs: int
    ) -> NDArray[np.float64]:
        """Of the end of each document, in passes that are known by `tokens`, [texts, any], and `positions`."""
        each = []
        for row, beginning in zip(tokens, self._beginnings, strict=True):
            compute = functools.partial(self._end_losses, row[-self._plan.probe_end :], beginning, states)
            each.append(Pass(row[None], positions, compute, pairs))
        return _parts(torch.cat(self._bench.passes(each)))

    def _end_losses(self, tokens: Tensor, beginning: Beginning, states: Callable[[Beginning], Tensor]) -> Tensor:
        return token_losses(LanguageModel(lambda *_: states(beginning), self._bench.checkpoint.head), tokens[None])


def _parts(losses: Tensor) -> NDArray[np.float64]:
    """The mean of each part of each row, [rows, parts]; the first token of a row has no loss."""
    return np.stack([part.double().nanmean(1).numpy() for part in losses.tensor_split(PARTS, dim=1)], axis=1)


def mean_and_error(values: NDArray[np.float64]) -> tuple[float, float]:
    """The mean over the parts of all texts, and its standard error.

    Two methods are compared by the difference on each part: how hard a part is falls out of it.
    """
    return float(values.mean()), float(values.std(ddof=1) / values.size**0.5)


def probe_result(plan: Plan, probing: Probing) -> dict[str, Any]:
    """The probe, as `measure --probe --json` prints it and `extend --quick` reports it."""
    names = [probed.method for probed in probing.ranked]
    methods = [_row(plan, probing, probed, names.index(probed.method) + 1) for probed in probing.methods]
    return {"protocol": _protocol(plan, probing), "methods": methods}


def _row(plan: Plan, probing: Probing, probed: Probed, rank: int) -> dict[str, Any]:
    cost, cost_error = mean_and_error(probing.short_cost(probed))
    excess, excess_error = mean_and_error(probed.end - probing.windowed)
    behind, behind_error = mean_and_error(probed.end - probing.ranked[0].end)
    losses, windowed = probed.end.mean(0), probing.windowed.mean(0)
    first, step = plan.target - plan.probe_end, plan.probe_end / len(losses)
    return {
        "method": probed.method,
        "rank": rank,
        "score": probed.score,
        "excess": excess,
        "excess_stderr": excess_error,
        "behind_best": {"value": behind, "stderr": behind_error},
        "short_nll": float(probed.short.mean()),
        "short_cost": cost,
        "short_cost_stderr": cost_error,
        "parts": [
            {"end": first + round((part + 1) * step), "nll": float(losses[part]), "windowed": float(windowed[part])}
            for part in range(len(losses))
        ],
    }


def _protocol(plan: Plan, probing: Probing) -> dict[str, Any]:
    return {
        "name": "end of a text, its beginning read once",
        "note": NOTE,
        "sources": list(probing.documents.sources),
        "length": plan.target,
        "end": plan.probe_end,
        "windows": plan.probe_window,
        "short": plan.probe_short,
        "score": "mean loss of the end, which sees all before it, nats a token",
        "excess": "above the loss of the unscaled model on the same tokens, seeing their window and the one before",
        "stderr": f"standard error over {PARTS} parts of each text of the difference on each",
        "bos": "none: stretches may start in the middle of a text",
        "weights_dtype": plan.weights_dtype,
        "device": described(plan.device),
    }
