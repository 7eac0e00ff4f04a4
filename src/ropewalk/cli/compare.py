"""`ropewalk compare`: the same small decoder with each encoding, trained alike and read past its training length."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ropewalk.checkpoints.load import SHIPPED
from ropewalk.cli.progress import resumable
from ropewalk.cli.shared import Json, print_json
from ropewalk.compare.contestants import CONTESTANTS
from ropewalk.compare.protocol import Protocol
from ropewalk.compare.run import Ended
from ropewalk.compare.run import compare as run
from ropewalk.compare.text import Text
from ropewalk.compare.write import write_comparison
from ropewalk.report.comparison_table import verdict

TRAIN, HELD_OUT = ("comedy_of_errors", "macbeth"), ("tempest",)  # of the plays that ship
Files = list[Path] | None


def compare(
    *,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A folder for the runs and the comparison.")],
    encodings: Annotated[
        str, typer.Option("--encodings", metavar="A,B", help="Encodings of the library to compare.")
    ] = ",".join(CONTESTANTS),
    encoding: Annotated[
        list[str] | None, typer.Option("--encoding", metavar="MODULE:CLASS", help="Your own; may be given again.")
    ] = None,
    text: Annotated[
        Files, typer.Option("--text", metavar="FILE", help="Text to learn from; may be given again.")
    ] = None,
    held_out: Annotated[
        Files, typer.Option("--held-out", metavar="FILE", help="Text to be measured on; may be given again.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each encoding; intervals need two.")] = 3,
    length: Annotated[int, typer.Option(help="Training length, bytes.")] = Protocol.length,
    steps: Annotated[int, typer.Option(help="Training steps.")] = Protocol.steps,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes at once; as many as cores if left out.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the runs that DIR holds.")] = False,
    as_json: Json = False,
) -> None:
    """Train the same small decoder with each encoding, and read text up to 16 times as long as it was trained on.

    Without --text and --held-out it learns from two of the plays that ship and is measured on the third.

    Example: ropewalk compare --encodings rope,alibi --seeds 1 --out comparison
    """
    protocol = Protocol(length=length, steps=steps)
    texts = Text.read(text or _plays(TRAIN), held_out or _plays(HELD_OUT), protocol.longest)
    names = [name.strip() for name in encodings.split(",") if name.strip()] + (encoding or [])
    with resumable(out / "runs"), _watched() as ended:
        result = run(protocol, texts, names, range(seeds), out, jobs=jobs, resume=resume, ended=ended)
    result = write_comparison(result, out)
    if as_json:
        print_json(result)
        return
    console = Console()
    console.print(table(result))
    console.print(verdict(result), highlight=False)
    console.print(f"{out}/comparison.html, .md, .csv and .json", highlight=False, soft_wrap=True)


def table(result: dict[str, Any]) -> Table:
    """Every encoding in a line."""
    lengths = [entry["length"] for entry in result["encodings"][0]["bits"]]
    shown = Table(title="bits per byte in the last quarter of so many bytes", title_justify="left")
    shown.add_column("encoding")
    for length in lengths:
        shown.add_column(f"{length:,}", justify="right")
    for name in ("holds to", "tokens/s"):
        shown.add_column(name, justify="right")
    for one in result["encodings"]:
        cells = [f"{entry['last_quarter']['value']:.2f}" for entry in one["bits"]]  # intervals are in the page
        speed = f"{one['tokens_per_second']['value']:,.0f}"
        style = None if one["passed"] else "dim"
        shown.add_row(one["name"], *cells, f"{one['holds_to']['value']:,}", speed, style=style)
    return shown


def _plays(names: tuple[str, ...]) -> list[Path]:
    return [SHIPPED / f"heldout-{name}.txt" for name in names]


@contextmanager
def _watched() -> Iterator[Ended]:
    """A bar on stderr, with an estimate of the time left; silent where stderr is no terminal."""
    console = Console(file=sys.stderr)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("training", total=None)
        yield lambda name, done, total: bar.update(task, completed=done, total=total, description=f"ended: {name}")
