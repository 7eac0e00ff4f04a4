"""`ropewalk verify`: whether what should be true is true on this machine."""

import math
import sys
from typing import Any

import torch
import typer
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from ropewalk import verify as library
from ropewalk.cli.shared import Json, print_json
from ropewalk.extend.result import SCHEMA_VERSION
from ropewalk.kernels import cpu
from ropewalk.verify import Result

MARKS = {True: Text("holds", "green"), False: Text("fails", "bold red"), None: Text("not run", "yellow")}


def verify(as_json: Json = False) -> None:
    """Hold the encodings to the identities of the field and to other people's code, on this machine.

    Example: ropewalk verify
    """
    torch.set_num_threads(1)  # the tensors are small: on a busy machine threads would only wait for each other
    console = Console(file=sys.stderr)
    with Progress(console=console, disable=not console.is_terminal, redirect_stderr=False, transient=True) as bar:
        results = list(bar.track(library.run(library.CHECKS), len(library.CHECKS), description="checking"))
    if as_json:
        print_json(describe(results))
    else:
        _print(results)
    if any(result.holds is False for result in results):
        raise typer.Exit(1)


def describe(results: list[Result]) -> dict[str, Any]:
    """The content of `verify --json`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "torch": torch.__version__,
        "transformers": _transformers(),
        "device": "cpu",
        "kernel": cpu.missing or "compiled",
        "checks": [
            {
                "name": result.check.name,
                "statement": result.check.statement,
                "against": result.check.against,
                "largest_error": _finite(result.largest_error),
                "tolerance": result.check.tolerance,
                "holds": result.holds,
                "note": result.note,
            }
            for result in results
        ],
    }


def summary(results: list[Result]) -> str:
    """The last line: how many hold, and which do not."""
    failing = [result.check.name for result in results if result.holds is False]
    ran = [result for result in results if result.holds is not None]
    left = f"; {len(results) - len(ran)} not run" if len(ran) < len(results) else ""
    if failing:
        verb = "fails" if len(failing) == 1 else "fail"
        return f"{len(failing)} of {len(ran)} {verb}: {'; '.join(failing)}{left}"
    return f"{len(ran)} checks hold{left}"


def _transformers() -> str | None:
    try:
        import transformers
    except ImportError:
        return None
    return transformers.__version__


def _finite(error: float | None) -> float | None:
    return error if error is not None and math.isfinite(error) else None


def _print(results: list[Result]) -> None:
    console = Console()
    console.print(_table(results, narrow=console.width < 120))
    notes = [f"{r.check.name}: {r.note}" if r.holds is False else r.note for r in results if r.note]
    if cpu.missing is not None:
        notes.append(f"the CPU kernel does not serve, torch's operators do: {cpu.missing}")
    for line in (*dict.fromkeys(notes), summary(results)):
        console.print(Text(line))


def _table(results: list[Result], *, narrow: bool) -> Table:
    """A check a row; where there is little room, what it says stands under its name."""
    table, before = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)), ""
    for column in ("check",) if narrow else ("check", "what it says"):
        table.add_column(column)
    table.add_column("against", no_wrap=True)
    for column in ("largest\nerror", "\ntolerance"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for result in results:
        check, error = result.check, result.largest_error
        size = "-" if error is None else f"{error:.1e}" if error else "0"
        tolerance = f"{check.tolerance:.0e}" if check.tolerance else "0"
        name, says = Text(check.name, "bold"), Text("likewise" if check.statement == before else check.statement)
        first = (Text("\n").join((name, says)),) if narrow else (name, says)
        table.add_row(*first, check.against, size, tolerance, MARKS[result.holds])
        before = check.statement
    return table
