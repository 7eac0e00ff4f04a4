"""`ropewalk convert`: a checkpoint laid out for code that pairs features the other way."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ropewalk.checkpoints import convert as library
from ropewalk.checkpoints.convert import Conversion
from ropewalk.checkpoints.convert.files import Told
from ropewalk.checkpoints.load import SHIPPED
from ropewalk.cli.shared import Json, Model, print_json
from ropewalk.extend.memory import available
from ropewalk.extend.result import SCHEMA_VERSION


def convert(
    model: Model = None,
    *,
    layout: Annotated[
        str,
        typer.Option(
            "--layout",
            metavar="L",
            help="half: feature i pairs with i + P (transformers' Llama); interleaved: 2i with 2i + 1 (Meta's).",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A new folder for the checkpoint.")],
    as_json: Json = False,
) -> None:
    """Lay queries and keys out for the other rotary pairing, and prove that scores and logits stay.

    The numbers keep their bits. Where transformers' code of the model type pairs otherwise than the result, its
    config.json says so (rope_interleave), for ropewalk and for you: transformers does not read it. The exit status is
    1, and nothing is left, where the result is not equal to the original.

    Example: ropewalk convert ./Llama-3.2-1B --layout interleaved --out llama-interleaved
    """
    with _watched() as told:
        source = SHIPPED if model is None else model
        done = library.convert(source, layout=layout, out=out, memory=available("cpu"), told=told)
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "out": str(out), **done.to_dict()})
    else:
        _print(done, out)


@contextmanager
def _watched() -> Iterator[Told]:
    """A bar on stderr; silent where that is no terminal."""
    console = Console(file=sys.stderr)  # the stream itself: loading holds `sys.stderr` back
    columns = TextColumn("{task.description}"), BarColumn(20), TimeRemainingColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("", total=1.0)

        def told(doing: str, share: float) -> None:
            if doing != bar.tasks[task].description:
                bar.reset(task, description=doing)
            bar.update(task, completed=share)

        yield told


def _print(done: Conversion, out: Path) -> None:
    lines = [
        f"{done.model_type}: {done.before} -> {done.after}, {done.tensors} tensors of {done.layers} layers in {out}",
        f"scores: within {done.scores_error:.1e} of the original's (tolerance {done.tolerance:.0e} of the largest); "
        f"read under the old pairing they would be {done.misread_error:.1e} away",
        f"logits: not compared: {done.not_run}"
        if done.logits_error is None
        else f"logits: within {done.logits_error:.1e} (tolerance {done.tolerance:.0e})",
    ]
    if done.key:
        lines.append(f"config.json says {done.key}; ropewalk reads it")
    if done.misread_by:
        lines.append(f"Others read it wrong, without a word: {done.misread_by}.")
    console = Console()
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
