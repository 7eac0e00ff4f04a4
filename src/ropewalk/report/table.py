"""Text in rows and columns, and numbers as text."""

import html
import re
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
        marked: rows set off: what was chosen.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    greyed: frozenset[int] = frozenset()
    prose: bool = False
    marked: frozenset[int] = frozenset()


def estimate(value: Mapping[str, Any] | None, digits: int = 2) -> str:
    """A mean over seeds with half the width of its 95 % interval; alone where there was one seed."""
    if value is None or value["value"] is None:
        return MISSING
    mean = f"{value['value']:,.{digits}f}"
    return mean if value["low"] is None else f"{mean} ± {(value['high'] - value['low']) / 2:,.{digits}f}"


def escaped(text: str) -> str:
    """Markdown that shows `text` as it is, on one line and in one cell, whatever somebody named a thing."""
    plain = html.escape(" ".join(text.split()), quote=False)
    marked = re.sub(r"([\\`*_\[\]|~$#]|^[-+](?=\s))", r"\\\1", plain)
    return re.sub(r"^(\d+)([.)])(?=\s|$)", r"\1\\\2", marked)  # or it would begin a list


def markdown_table(table: Table) -> str:
    """The table as GitHub's Markdown has it, without its title and note."""
    rule = ["---"] + ["---" if table.prose else "---:"] * (len(table.header) - 1)
    lines = [[*map(escaped, table.header)], rule, *([*map(escaped, row)] for row in table.rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
