"""`ropewalk models`: public models and how each encodes position."""

from typing import Any

from rich.console import Console
from rich.table import Table

from ropewalk.checkpoints.presets import PRESETS, Preset
from ropewalk.cli.shared import Json, print_json
from ropewalk.extend.result import SCHEMA_VERSION

ERRATA = "Where popular tables err"


def models(as_json: Json = False) -> None:
    """List public models: their context, their position encoding, how they were extended, and where tables err.

    A name from the list can be given to `ropewalk inspect` in place of a directory.

    Example: ropewalk models
    """
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "models": [describe(preset) for preset in PRESETS.values()]})
        return
    console = Console()
    table = Table()
    table.add_column("name", no_wrap=True)
    for column in ("context", "sold as"):
        table.add_column(column, justify="right")
    for column in ("encoding", "extended"):
        table.add_column(column)
    for preset in PRESETS.values():
        table.add_row(
            preset.name, tokens(preset, "context"), tokens(preset, "claimed"), preset.encoding, preset.extended
        )
    console.print(table)
    console.print(f"\n{ERRATA}:")
    for preset in PRESETS.values():
        if preset.note:
            console.print(f"  {preset.name}: {preset.note}", highlight=False, markup=False)
    console.print("\nSources, and how each fact was read: ropewalk models --json")


def tokens(preset: Preset, field: str) -> str:
    """A number of tokens, or why there is none."""
    count = getattr(preset, field)
    unknown = "undisclosed" if preset.encoding == "undisclosed" else "not stated"
    return unknown if count is None else f"{count:,}"


def describe(preset: Preset) -> dict[str, Any]:
    """One entry of `models --json`."""
    return {
        "name": preset.name,
        "title": preset.title,
        "by": preset.by,
        "year": preset.year,
        "context": preset.context,
        "claimed": preset.claimed,
        "encoding": preset.encoding,
        "extended": preset.extended,
        "note": preset.note,
        "confidence": preset.confidence,
        "sources": [dict(source) for source in preset.sources],
        "config": None if preset.config is None else preset.published_config(),
    }
