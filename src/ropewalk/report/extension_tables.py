"""An extension's result as plain tables: what the page and the Markdown have in common."""

import math
from collections.abc import Callable, Iterable
from typing import Any

from ropewalk.report import quick
from ropewalk.report.measured_tables import arc_table, bucket_tables, reading_table, retrieval_table, wavelength_table
from ropewalk.report.table import MISSING, Table


def title(report: dict[str, Any]) -> str:
    """What was extended, and how far."""
    return f"{report['model']}: {report['native_length']:,} to {report['target_length']:,} tokens"


def reloaded(report: dict[str, Any]) -> str | None:
    """What was compared after the written checkpoint had been read back, in words."""
    found = report["verified"]
    if not found:
        return None
    stray, error = found["frequencies_max_relative_error"], found["logits_max_error"]
    frequencies = "equal to the last bit" if found["frequencies_bit_equal"] else f"within {stray:.1e} relative"
    logits = "equal to" if error == 0 else f"within {error:.1e} of"
    changed = ", and other than the unscaled model's" if found["logits_changed"] else ""
    return (
        f"Written for {report['chosen']}, reloaded in {found['reader']}: frequencies {frequencies}, attention factor "
        f"{found['attention_factor']:.6g}, logits {logits} those of the model that was measured{changed}."
    )


def tables(report: dict[str, Any]) -> dict[str, Table]:
    """Every table that the report has the numbers for, by a short name, in the order in which they stand."""
    made = {
        "main": _judged(report),
        **({"probe": quick.table(report["probe"])} if report.get("quick") else {}),
        "readers": _readers(report),
        "protocol": _protocol(report),
        **bucket_tables(report),
        "reading": reading_table(report),
        "retrieval": retrieval_table(report),
        "arcs": arc_table(report),
        "wavelengths": wavelength_table(report),
    }
    return {name: table for name, table in made.items() if table.rows}


def _judged(report: dict[str, Any]) -> Table:
    """One row a method: how far it holds and reads, and what short text pays."""
    judged = [] if report.get("quick") else report["methods"]
    rows = tuple((_name(report, m), *_lengths(m), *_cost(m["short_cost"])) for m in judged)
    chosen = frozenset(n for n, m in enumerate(judged) if m["method"] == report["chosen"])
    header = (
        "method",
        "holds to",
        "95 % interval",
        "reads to",
        "finds to",
        "usable",
        "short cost, nats",
        "perplexity on short text",
    )
    return Table("Every method on the same tokens", header, rows, _judged_note(report), marked=chosen)


def _name(report: dict[str, Any], method: dict[str, Any]) -> str:
    return f"{method['method']} (chosen)" if method["method"] == report["chosen"] else str(method["method"])


def _lengths(method: dict[str, Any]) -> tuple[str, ...]:
    holds = method["holds_to"]
    if holds is None:
        return (MISSING,) * 5
    interval = f"{holds['low']:,}–{holds['high']:,}"
    lengths = (method["reads_to"], method.get("finds_to"), method["usable_length"])
    return f"{holds['value']:,}", interval, *map(count, lengths)


def count(value: float | None) -> str:
    """A whole number, or a dash where there is none."""
    return MISSING if value is None else f"{value:,}"


def _cost(nats: float | None) -> tuple[str, str]:
    return (MISSING, MISSING) if nats is None else (f"{nats:+.3f}", f"{100 * math.expm1(nats):+.1f} %")


def _judged_note(report: dict[str, Any]) -> str:
    said = (
        "holds to: the end of the last stretch past the native length whose loss is at most "
        f"{report['tolerance']:g} nats a token above crop, the same tokens read with the last native-length context "
        "only. reads to: the farthest distance from which a copy of unguessable text is still predicted at least "
        "1 nat a token better than text without an original. finds to: the longest text in whose every quarter pass "
        "keys are found. usable: the smaller of holds to and reads to. short cost: loss within the native length above "
        "the unscaled model's."
    )
    reading = report["protocol"].get("reading") or {}
    if not reading.get("trials"):
        return f"{said} Reading was not measured, so usable is holds to."
    if not reading["measurable"]:
        why = "unscaled, the model does not copy within its own native length, so usable is holds to"
        return f"{said} Reading could not be measured here: {why}."
    return said


def _readers(report: dict[str, Any]) -> Table:
    rows = tuple((reader, answer) for reader, answer in (report["readers"] or {}).items())
    note = "By the readers' code and documentation, but for what is said above to have been run for this report."
    return Table("Who reads it", ("reader", "takes it"), rows, note, prose=True)


def _protocol(report: dict[str, Any]) -> Table:
    """How it was measured and with what: every key, those that are not known here under their own names."""
    rows = [(_LABELS.get(key, key.replace("_", " ")), text) for key, text in _flat(report["protocol"])]
    rows += [(f"probe: {key}", text) for key, text in _flat(_mapping((report.get("probe") or {}).get("protocol")))]
    rows += [("versions", ", ".join(f"{name} {version}" for name, version in report["versions"].items()))]
    rows += [("time", f"{report['seconds']:,} s")]
    return Table("Protocol and versions", ("what", "how"), tuple(rows), prose=True)


_LABELS = {
    "documents": "stretches of text", "length": "tokens in a stretch", "bucket": "positions in a bucket",
    "pass": "passes", "bos": "beginning of sequence", "crop_mean_context": "crop's mean context, tokens",
}  # fmt: skip


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {} if value is None else {"protocol": value}


def _flat(values: dict[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}: ")
        else:
            yield f"{prefix}{key}", _text(value)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    said: Callable[[Any], str] = (
        "{:,}".format if isinstance(value, int | float) and not isinstance(value, bool) else str
    )
    return {None: MISSING, True: "yes", False: "no"}[value] if value is None or isinstance(value, bool) else said(value)
