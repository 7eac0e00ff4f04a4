"""Choose among methods: the longest usable length at a short cost within the tolerance."""

from ropewalk.checkpoints import readers
from ropewalk.extend.measuring import Measured, Measurement
from ropewalk.extend.methods import BASELINES
from ropewalk.extend.plan import Plan
from ropewalk.extend.remapping import Method
from ropewalk.measure.reading import reads_to
from ropewalk.scaling import Scaling


def writable(method: Method) -> bool:
    """Whether a checkpoint can state `method` at all."""
    return isinstance(method, Scaling) and readers.writable(method)


def usable_length(measured: Measured, measurement: Measurement) -> int:
    """min(holds_to, reads_to), or holds_to alone where reading cannot be measured on this model."""
    if not measurement.native_reads or not measured.readings:
        return measured.verdict.holds_to
    return min(measured.verdict.holds_to, reads_to(list(measured.readings)))


def allowed(plan: Plan, method: str, short_cost: float) -> bool:
    """Whether a method may be written: not a baseline, known to readers, cheap enough on short text."""
    return method not in BASELINES and writable(plan.methods[method]) and short_cost <= plan.tolerance


def eligible(plan: Plan, measured: Measured) -> bool:
    """Whether what was measured may be written."""
    return allowed(plan, measured.method, measured.verdict.short_cost)


def choose(plan: Plan, measurement: Measurement) -> Measured | None:
    """The method to write; None when no method stays within the tolerance on short text."""
    fit = [measured for measured in measurement.methods if eligible(plan, measured)]
    return max(fit, key=lambda m: (usable_length(m, measurement), -m.verdict.short_cost), default=None)
