"""`ropewalk extend`: the main job."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ropewalk.cli.progress import resumable, watched
from ropewalk.cli.shared import (
    Device,
    Documents,
    Dtype,
    Json,
    Model,
    Needles,
    Temperature,
    Text,
    Tolerance,
    Trials,
    memory_used,
    method_table,
    model_and_texts,
    print_json,
    probe_table,
)
from ropewalk.extend.kept import beside
from ropewalk.extend.methods import DEFAULT
from ropewalk.extend.plan import plan as make_plan
from ropewalk.extend.run import extend as run
from ropewalk.extend.world import ranks
from ropewalk.measure.retrieval import DEPTHS
from ropewalk.measure.verdict import TOLERANCE
from ropewalk.report.words import verdict


def extend(
    model: Model = None,
    *,
    to: Annotated[int, typer.Option("--to", metavar="N", help="The length to reach, in tokens.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A new folder for the checkpoint and its report.")],
    text: Text = None,
    methods: Annotated[str, typer.Option("--methods", metavar="A,B", help="Methods to compare.")] = ",".join(DEFAULT),
    documents: Documents = 48,
    trials: Trials = 12,
    needles: Needles = DEPTHS,
    temperature: Temperature = None,
    tolerance: Tolerance = TOLERANCE,
    dtype: Dtype = "auto",
    device: Device = "auto",
    quick: Annotated[bool, typer.Option("--quick", help="Choose by the probe, in minutes.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a run to DIR was stopped.")] = False,
    as_json: Json = False,
) -> None:
    """Measure every method, choose one, write the checkpoint, verify it and report.

    Example: ropewalk extend ./SmolLM2-135M --to 16384 --text hamlet.txt --out smollm2-16k
    """
    path, texts = model_and_texts(model, text)
    named = tuple(name.strip() for name in methods.split(",") if name.strip())
    plan = make_plan(
        path,
        texts,
        to,
        named,
        documents=documents,
        trials=trials,
        tolerance=tolerance,
        needles=needles,
        temperature=temperature,
        quick=quick,
        dtype=dtype,
        device=device,
    )
    with ranks() as world, resumable(beside(out)), watched(world) as watch:
        report = run(plan, out, resume=resume, watch=watch, world=world)
    if not world.is_first:
        pass  # the first rank prints
    elif as_json:
        print_json(report)
    else:
        console = Console()
        if quick:
            table = probe_table(plan.native, plan.target, report["probe"], report["chosen"])
        else:
            table = method_table(plan.native, plan.target, report["methods"], report["chosen"])
        console.print(table)
        console.print(verdict(report, report["chosen"]), highlight=False)
        if quick:
            console.print(f"Confirm it with full passes: {report['confirm']}", highlight=False, soft_wrap=True)
        console.print(
            f"{out}/report.html" + (f" and the checkpoint in {out}" if report["chosen"] else ""),
            highlight=False,
            soft_wrap=True,
        )
        console.print(memory_used(report["memory"]), highlight=False)
        if report["chosen"]:
            takes = [name for name, answer in report["readers"].items() if answer.startswith("yes")]
            told = f"Read by {', '.join(takes)}; how: ropewalk recipe {out}"
            console.print(told, highlight=False, markup=False, soft_wrap=True)
    if report["chosen"] is None:
        raise typer.Exit(1)
