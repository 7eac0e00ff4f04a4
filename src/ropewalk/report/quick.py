"""What the probe saw, in words and in a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from ropewalk.report.table import Table

NOTE = (
    "nats a token; excess: above the unscaled model that sees the nearest tokens alone, on the same tokens; "
    "± one standard error over the parts of the texts"
)
CLEAR = 2  # standard errors by which methods differ that are told apart


def verdict(report: Mapping[str, Any]) -> str:
    """The result in words, which claim no length."""
    rows = report["probe"]["methods"]
    chosen = next((row for row in rows if row["method"] == report["chosen"]), None)
    if chosen is None:
        return f"No method stays within {report['tolerance']:g} nats a token on short text; no checkpoint was written."
    unclear = not_told_apart(rows, chosen["method"])
    return (
        f"A quick probe, which measures no length: at the end of {report['target_length']:,} tokens {chosen['method']} "
        f"loses least of the methods that may be written, and costs {chosen['short_cost']:+.3f} nats a token on short "
        f"text." + (f" Not told apart from it: {', '.join(unclear)}." if unclear else "")
    )


def not_told_apart(rows: Sequence[dict[str, Any]], method: str) -> list[str]:
    """The methods that a probe cannot tell from `method`."""
    (chosen,) = (row for row in rows if row["method"] == method)
    return [row["method"] for row in rows if row["method"] not in (method, "none") and not apart(chosen, row)]


def apart(chosen: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two rows of a probe differ clearly, each being known by its difference from the best."""
    (a, a_error), (b, b_error) = (
        (row["behind_best"]["value"], row["behind_best"]["stderr"]) for row in (chosen, other)
    )
    return abs(b - a) > CLEAR * (a_error + b_error)


def table(probe: dict[str, Any]) -> Table:
    """Every method in a line, the best first."""
    rows = sorted(probe["methods"], key=lambda row: row["rank"])
    header = ("rank", "method", "short cost", f"excess at {rows[0]['parts'][-1]['end']:,}", "behind the best")
    return Table("The probe", header, tuple(map(_cells, rows)), NOTE)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    estimates = [
        (row["short_cost"], row["short_cost_stderr"]),
        (row["excess"], row["excess_stderr"]),
        (row["behind_best"]["value"], row["behind_best"]["stderr"]),
    ]
    numbers = (f"{value:+.3f} ± {error:.3f}" for value, error in estimates)
    return (str(row["rank"]), row["method"], *numbers)
