"""What the measuring commands share: arguments, defaults and the table."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ropewalk.checkpoints.load import SHIPPED
from ropewalk.extend.memory import gigabytes
from ropewalk.report import quick

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
Dtype = Annotated[
    str,
    typer.Option(
        metavar="D",
        help="float32, bfloat16, float16, or auto: float32 on the CPU, elsewhere as the weights are stored.",
    ),
]
Device = Annotated[str, typer.Option(metavar="D", help="cpu, cuda, cuda:N, mps, or auto: CUDA where there is any.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]


def model_and_texts(model: Path | None, texts: list[Path] | None) -> tuple[Path, tuple[Path, ...]]:
    """The shipped model and the held-out text beside it where nothing was named."""
    if model is None:
        return SHIPPED, tuple(texts) if texts else tuple(sorted(SHIPPED.glob("heldout-*.txt")))
    return model, tuple(texts or ())


def print_json(content: dict[str, Any]) -> None:
    """JSON on stdout, and nothing else there."""
    typer.echo(json.dumps(content, indent=2, allow_nan=False))


def memory_used(memory: dict[str, int]) -> str:
    """The peak beside its prediction."""
    return f"Peak memory {gigabytes(memory['peak_bytes'])}, {gigabytes(memory['predicted_bytes'])} were predicted"


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


def probe_table(native: int, target: int, probe: dict[str, Any], chosen: str | None = None) -> Table:
    """Every method of a probe in a line, the best first."""
    rows = quick.table(probe)
    shown = Table(title=f"{native:,} to {target:,} tokens, the probe", title_justify="left", caption=rows.note)
    for name in rows.header:
        shown.add_column(name, justify="left" if name == "method" else "right")
    for rank, method, *cells in rows.rows:
        picked = method == chosen
        shown.add_row(rank, f"{method} (chosen)" if picked else method, *cells, style="bold" if picked else None)
    return shown
