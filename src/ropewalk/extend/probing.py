"""The quick way: every method by the gapped probe, on the same passages."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropewalk.checkpoints.load import Checkpoint
from ropewalk.extend.choose import allowed
from ropewalk.extend.measuring import Bench
from ropewalk.extend.passes import Passes
from ropewalk.extend.placing import described
from ropewalk.extend.plan import Plan
from ropewalk.extend.progress import Cost
from ropewalk.measure.documents import Documents
from ropewalk.measure.probe import WARM_UP, mean_and_error, passage_losses, spans
from ropewalk.scaling import Scaling

NOTE = "a screening: it sees distances out of range, not crowding by so many real tokens"


@dataclass(frozen=True)
class Probed:
    """One method on every passage.

    Attributes:
        short: mean loss of each passage without a gap, [passages].
        spans: the same at each span, [spans, passages].
    """

    method: str
    short: NDArray[np.float64]
    spans: NDArray[np.float64]

    @property
    def score(self) -> NDArray[np.float64]:
        """The loss of each passage, over the spans past the native length: [passages]. Less is better."""
        return self.spans[1:].mean(0)


@dataclass(frozen=True)
class Probing:
    """All methods of one plan on the same passages; the first is the model as it is."""

    passages: Documents
    spans: tuple[int, ...]
    methods: tuple[Probed, ...]

    @property
    def ranked(self) -> list[Probed]:
        """The best first."""
        return sorted(self.methods, key=lambda probed: float(probed.score.mean()))

    def short_cost(self, probed: Probed) -> NDArray[np.float64]:
        """What a passage costs without a gap, above the unscaled model: nats, [passages]."""
        return probed.short - self.methods[0].short

    def choose(self, plan: Plan) -> str | None:
        """The best method that may be written; None where none is cheap enough on short text."""
        fit = (p.method for p in self.ranked if allowed(plan, p.method, float(self.short_cost(p).mean())))
        return next(fit, None)


def probe(plan: Plan, passages: Documents, checkpoint: Checkpoint, passes: Passes | None = None) -> Probing:
    """The model as it is and every method of `plan`, without a gap and at each span; a length-dependent method with
    the frequencies of the span."""
    passes = passes or Passes()
    bench, lengths = Bench(plan, passages, checkpoint, passes), spans(plan.native, plan.target)
    scalings: dict[str, Scaling | None] = {"none": None, **plan.scalings}
    cost = Cost.of(plan.spec.config)
    work = (1 + len(lengths)) * cost.of_pass(len(passages), passages.length)
    passes.expect(cost, dict.fromkeys(scalings, work))
    found = []
    for name, scaling in scalings.items():
        with passes.of_method(name):
            short, *gapped = (_losses(bench, scaling, span) for span in (passages.length, *lengths))
        found.append(Probed(name, short, np.stack(gapped)))
    return Probing(passages, lengths, tuple(found))


def _losses(bench: Bench, scaling: Scaling | None, span: int) -> NDArray[np.float64]:
    bench.passes.over("passage", len(bench.documents), f"span {span:,}, ")
    with bench.at_length(scaling, span if bench.plan.depends_on_length(scaling) else bench.plan.target):
        return passage_losses(bench.model, bench.documents.tokens, span, head=bench.plan.probe_head)


def probe_result(plan: Plan, probing: Probing) -> dict[str, Any]:
    """The probe, as `measure --probe --json` prints it and `extend --quick` reports it."""
    names = [probed.method for probed in probing.ranked]
    methods = [_row(probing, probed, names.index(probed.method) + 1) for probed in probing.methods]
    return {"protocol": _protocol(plan, probing), "methods": methods}


def _row(probing: Probing, probed: Probed, rank: int) -> dict[str, Any]:
    short, plain = probing.short_cost(probed), probing.methods[0].short
    cost, cost_error = mean_and_error(short)
    behind, behind_error = mean_and_error(probed.score - probing.ranked[0].score)
    rows = []
    for span, losses in zip(probing.spans, probed.spans, strict=True):
        excess, error = mean_and_error(losses - plain)
        rows.append({"span": span, "nll": float(losses.mean()), "excess": excess, "stderr": error})
    return {
        "method": probed.method,
        "rank": rank,
        "score": float(probed.score.mean()),
        "behind_best": {"value": behind, "stderr": behind_error},
        "short_nll": float(probed.short.mean()),
        "short_cost": cost,
        "short_cost_stderr": cost_error,
        "spans": rows,
    }


def _protocol(plan: Plan, probing: Probing) -> dict[str, Any]:
    passages, head = probing.passages, plan.probe_head
    return {
        "name": "gapped probe",
        "note": NOTE,
        "passages": len(passages),
        "sources": list(passages.sources),
        "length": passages.length,
        "head": head,
        "scored": passages.length - head - WARM_UP,
        "score": "mean loss at the spans past the native length, nats a token",
        "excess": "above the loss of the unscaled model on the same tokens without a gap",
        "stderr": "standard error over passages of the difference on each",
        "bos": "none: passages start in the middle of a text",
        "weights_dtype": plan.weights_dtype,
        "device": described(plan.device),
    }
