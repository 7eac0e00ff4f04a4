"""What in a config its user should know: where transformers, or another reader, computes something else than it says.

Each check is a function of the facts and of the spec that was read from them, and yields findings; CHECKS lists them.
A config from which no encoding follows never comes here: it is a `ConfigError`, with a finding of its own.
"""

from collections.abc import Callable, Iterable

from ropewalk.checkpoints.doctor import keys, lengths, others, scalings, strays
from ropewalk.checkpoints.errors import SEVERITIES, Finding
from ropewalk.checkpoints.facts import Facts
from ropewalk.checkpoints.spec import ModelSpec

CHECKS: tuple[Callable[[Facts, ModelSpec], Iterable[Finding]], ...] = (
    keys.misspelt,
    lengths.original_overwritten,
    lengths.factor_disagrees,
    lengths.length_guessed,
    lengths.dynamic,
    lengths.longrope_switch,
    lengths.mscale_unread,
    scalings.temperature_cancelled,
    scalings.beta_zero,
    scalings.truncate_ignored,
    scalings.scaling_dropped,
    scalings.type_alias,
    scalings.type_refused,
    scalings.null_head_dim,
    keys.dialects,
    keys.base_ignored,
    keys.share_ignored,
    strays.foreign,
    strays.outside,
    strays.overruled,
    strays.null_stated,
    strays.window_missing,
    others.alibi,
    others.from_weights,
    others.pairing_unread,
    lengths.window_short,
    keys.part_read,
    keys.assumed,
)
CHECKS_AT: tuple[Callable[[Facts, ModelSpec, int], Iterable[Finding]], ...] = (
    lengths.table_short,
    lengths.claim_short,
)


def examine(facts: Facts, spec: ModelSpec, to: int | None = None) -> tuple[Finding, ...]:
    """Every finding of `facts`, the worst first.

    Args:
        to: a length that is asked for, in tokens; findings about it are left out without one.
    """
    found = [finding for check in CHECKS for finding in check(facts, spec)]
    found += [] if to is None else [finding for check in CHECKS_AT for finding in check(facts, spec, to)]
    return tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity)))
