"""A result in words, from its JSON alone."""

import math
from collections.abc import Mapping
from typing import Any

from ropewalk.report import quick

UNREAD = "reading could not be measured: the model does not copy within its native length"
UNFOUND = (
    "retrieval could not be measured: no pass keys fit into the native length, or the model does not find them there"
)


def verdict(report: Mapping[str, Any], method: str | None) -> str:
    """What was seen of one method: how far it goes, what it costs, and how that compares with the model as it is.

    Args:
        report: the content of report.json, or as much of it as has `methods`, `tolerance` and `protocol`.
        method: its name; None where none was chosen.
    """
    if report.get("quick"):
        return quick.verdict(report)
    if method is None:
        return f"No method stays within {report['tolerance']:g} nats a token on short text; no checkpoint was written."
    found, none = (_of(report, name) for name in (method, "none"))
    if method == "crop":
        return "crop reads the last native-length context and nothing before it: what every other method is held to."
    said = [f"{method} holds to {found['holds_to']['value']:,} tokens", *_read_and_found(report["protocol"], found)]
    if method == "none":
        return f"{'; '.join(said)}. This is the model as it is."
    return f"{'; '.join(said)}; {_cost(found['short_cost'])}. {_against(found['usable_length'], none['usable_length'])}"


def _of(report: Mapping[str, Any], method: str) -> Mapping[str, Any]:
    return next(m for m in report["methods"] if m["method"] == method)


def _read_and_found(protocol: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """How far it reads and finds pass keys, or why that is not known."""
    if found["reads_to"] is not None:
        said = [f"reads to {found['reads_to']:,}"]
    else:
        said = [UNREAD if protocol["reading"]["trials"] else "how far it reads was not measured"]
    if found.get("finds_to") is not None:
        return [
            *said,
            f"finds pass keys in texts of {found['finds_to']:,}" if found["finds_to"] else "finds no pass keys",
        ]
    return [*said, UNFOUND] if protocol.get("retrieval", {}).get("needles") else said


def _cost(nats: float) -> str:
    percent = round(100 * math.expm1(nats), 1) + 0.0  # so that nothing is "-0.0 %"
    return f"it costs {percent:.1f} % perplexity on short text"


def _against(usable: int, today: int) -> str:
    """Usable lengths as a ratio."""
    if today == 0:
        return "Unscaled, the model is usable at none of the lengths measured."
    times = round(usable / today, 1)
    if times <= 1:
        return f"That is no farther than today: unscaled, the model is usable to {today:,}."
    ratio = f"{times:.1f}".removesuffix(".0")
    return f"That is {ratio} times as far as today: unscaled, the model is usable to {today:,}."
