"""What the measuring commands share: arguments, defaults, the progress bar and the table."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from ropewalk.checkpoints.load import SHIPPED
from ropewalk.extend.plan import Plan
from ropewalk.extend.run import Watch
from ropewalk.measure.retrieval import DEPTHS

Model = Annotated[
    Path | None,
    typer.Argument(metavar="[MODEL]", help="A model directory or .gguf; left out, the small model that ships."),
]
Text = Annotated[
    list[Path] | None, typer.Option("--text", metavar="FILE", help="Text to measure on; may be given again.")
]
Documents = Annotated[int, typer.Option(help="Stretches of text measured, at most.")]
Trials = Annotated[int, typer.Option(help="Sequences of planted strings a distance; 0 leaves reading out.")]
Needles = Annotated[int, typer.Option(help="Pass keys hidden in one text, 1 to 8; 0 leaves retrieval out.")]
Tolerance = Annotated[float, typer.Option(help="Excess over crop that still counts as holding, nats a token.")]
Temperature = Annotated[
    str | None, typer.Option(metavar="T", help="none, yarn or longrope, for every method; left out, each method's own.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]


def model_and_texts(model: Path | None, texts: list[Path] | None) -> tuple[Path, tuple[Path, ...]]:
    """The shipped model and the held-out text beside it where nothing was named."""
    if model is None:
        return SHIPPED, tuple(texts) if texts else tuple(sorted(SHIPPED.glob("heldout-*.txt")))
    return model, tuple(texts or ())


def print_json(content: dict[str, Any]) -> None:
    """JSON on stdout, and nothing else there."""
    typer.echo(json.dumps(content, indent=2, allow_nan=False))


@contextmanager
def watched(plan: Plan) -> Iterator[Watch]:
    """A progress bar on stderr, with an estimate of the time left; silent where stderr is no terminal."""
    console = Console(file=sys.stderr)  # the stream itself: loading holds `sys.stderr` back
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal, redirect_stderr=False) as bar:
        task = bar.add_task("", total=None)
        yield Watch(
            stage=lambda text: bar.update(task, description=text),
            begin=lambda documents: bar.update(task, total=_tokens_expected(plan, documents)),
            progress=lambda method, tokens: bar.update(task, description=method, advance=tokens),
        )


def _tokens_expected(plan: Plan, documents: int) -> int:
    """Tokens that all passes together take; length-dependent methods pass once a bucket end."""
    crop = documents * (plan.native + plan.native * -(-(plan.target - plan.native) // plan.edges[1]))
    reading = plan.trials * sum(plan.contexts)
    once, stepped = documents * plan.target, documents * sum(plan.edges[1:])
    curves = once + sum(stepped if scaling.depends_on_length else once for scaling in plan.scalings.values())
    retrieval = -(-DEPTHS // plan.needles) * sum(plan.haystacks) if plan.needles else 0
    return crop + curves + (reading + retrieval) * (1 + len(plan.scalings))


def method_table(native: int, target: int, methods: list[dict[str, Any]], chosen: str | None = None) -> Table:
    """Every method in a line."""
    table = Table(title=f"{native:,} to {target:,} tokens", title_justify="left")
    table.add_column("method", no_wrap=True)
    for column in ("holds to", "95 % interval", "reads to", "finds to", "usable", "short cost"):
        table.add_column(column, justify="right")
    for m in methods:
        name = f"{m['method']} (chosen)" if m["method"] == chosen else m["method"]
        holds = m["holds_to"]
        cells = ["-"] * 5
        if holds:
            reads, finds = ("-" if m[key] is None else f"{m[key]:,}" for key in ("reads_to", "finds_to"))
            interval = f"{holds['low']:,}-{holds['high']:,}"
            cells = [f"{holds['value']:,}", interval, reads, finds, f"{m['usable_length']:,}"]
        table.add_row(name, *cells, f"{m['short_cost']:+.3f}", style="bold" if m["method"] == chosen else None)
    return table
