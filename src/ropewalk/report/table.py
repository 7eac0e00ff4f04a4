"""Text in rows and columns, and numbers as text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MISSING = "-"


@dataclass(frozen=True)
class Table:
    """Text in rows and columns.

    Attributes:
        title: what stands above it.
        header: one text a column.
        rows: the cells, as many in each row as in the header.
        note: what stands below it; may be empty.
        greyed: rows of encodings that failed the gate.
        prose: whether cells are sentences, set flush left, and not numbers.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    greyed: frozenset[int] = frozenset()
    prose: bool = False


def estimate(value: Mapping[str, Any] | None, digits: int = 2) -> str:
    """A mean over seeds with half the width of its 95 % interval; alone where there was one seed."""
    if value is None or value["value"] is None:
        return MISSING
    mean = f"{value['value']:,.{digits}f}"
    return mean if value["low"] is None else f"{mean} ± {(value['high'] - value['low']) / 2:,.{digits}f}"
