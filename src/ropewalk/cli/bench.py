"""`ropewalk bench`: how fast q and k are rotated and attention is biased, beside the limit and other people's code."""

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from ropewalk.bench import run as library
from ropewalk.bench.clock import ROUNDS
from ropewalk.cli.shared import Json, print_json

SCHEMA_VERSION = 1


def bench(
    *,
    threads: Annotated[int, typer.Option(min=1, help="Threads of torch.")] = 1,
    rounds: Annotated[int, typer.Option(min=3, help="Turns of each way; ratios are of medians.")] = ROUNDS,
    device: Annotated[str, typer.Option(help="cpu, or cuda: the Triton kernel on a GPU.")] = "cpu",
    only: Annotated[str, typer.Option("--only", metavar="TEXT", help="Jobs whose name holds TEXT.")] = "",
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the result as JSON.")] = None,
    as_json: Json = False,
) -> None:
    """Time the rotation of q and k over copying them, and biased attention over plain. Nothing else should run.

    Example: ropewalk bench --threads 1 --only decode
    """
    chosen, console = library.plan(only, device), Console(file=sys.stderr)
    before = library.machine(threads, device)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        timed = library.bench(chosen, threads, rounds)
        entries = list(bar.track(timed, total=len(chosen), description="timing"))
    result = {
        "schema_version": SCHEMA_VERSION, "date": datetime.now(UTC).date().isoformat(), **before, "rounds": rounds,
        "jobs": entries,
    }  # fmt: skip
    if out is not None:
        unfinished = out.with_name(f".{out.name}.unfinished")
        unfinished.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        os.replace(unfinished, out)
    if as_json:
        print_json(result)
    else:
        Console().print(table(result))


def table(result: dict[str, Any]) -> Table:
    """A job a row: ours, the best of the others, and what is aimed at."""
    where = result.get("gpu") or f"{result['threads']} thread(s), {result['cpu']}"
    shown = Table(title=f"time over the limit, {where}", title_justify="left")
    for name in ("job", "dtype", "layout", "axes"):
        shown.add_column(name)
    for name in ("ropewalk", "best other", "target"):
        shown.add_column(name, justify="right")
    shown.add_column("which")
    for job in result["jobs"]:
        ours = next(way for way in job["ways"] if way["name"] == "ropewalk")
        other = next((way for way in job["ways"] if not way["name"].startswith("ropewalk")), None)
        shown.add_row(
            job["job"], job["dtype"], job["layout"], job["axes"], f"{ours['ratio']:.2f}",
            f"{other['ratio']:.2f}" if other else "-", f"{job['target']:.2f}", other["name"] if other else "",
        )  # fmt: skip
    return shown
