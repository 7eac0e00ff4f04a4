"""report.md: what report.html says, in GitHub's Markdown."""

import json
import re
from collections.abc import Iterable
from typing import Any

from ropewalk.report.extension_tables import reloaded, tables, title
from ropewalk.report.table import Table, escaped, markdown_table

FIRST = ("main", "probe")  # before the checkpoint; the rest stand after it


def markdown(report: dict[str, Any], verdict: str) -> str:
    """The report as text.

    Args:
        report: the content of report.json.
        verdict: the result in words.
    """
    made = tables(report)
    parts = [f"# {escaped(title(report))}", escaped(verdict)]
    parts += [part for name in FIRST if name in made for part in _section(made[name])]
    if report["config"]:
        parts += [
            "## The keys of config.json that concern position",
            _code(json.dumps(report["config"], indent=2), "json"),
        ]
    parts += [escaped(said)] if (said := reloaded(report)) else []
    parts += _recipes(report.get("recipes") or [])
    parts += [part for name, table in made.items() if name not in FIRST for part in _section(table)]
    return "\n\n".join(parts) + "\n"


def _section(table: Table) -> Iterable[str]:
    return (f"## {escaped(table.title)}", markdown_table(table), *filter(None, [escaped(table.note)]))


def _recipes(recipes: list[dict[str, Any]]) -> list[str]:
    parts = ["## How to serve it"] if recipes else []
    for recipe in recipes:
        parts += [f"### {escaped(recipe['engine'])} ({escaped(recipe['status'])})"]
        parts += [_code(recipe["text"])] if recipe.get("text") else []
        parts += [escaped(recipe["reason"])] if recipe.get("reason") else []
        parts += [f"Source: {escaped(recipe['source'])}"] if recipe.get("source") else []
    return parts


def _code(text: str, language: str = "") -> str:
    """A block whose fence is longer than any run of backticks in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"
