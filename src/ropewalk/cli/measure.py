"""`ropewalk measure`: how far a model reads under one method."""

from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.load import Checkpoint
from ropewalk.cli.progress import watched
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
from ropewalk.extend.measuring import measure as run
from ropewalk.extend.measuring import prepare
from ropewalk.extend.memory import Memory
from ropewalk.extend.passes import Passes
from ropewalk.extend.plan import Plan
from ropewalk.extend.plan import plan as make_plan
from ropewalk.extend.probing import probe as run_probe
from ropewalk.extend.probing import probe_result
from ropewalk.extend.result import SCHEMA_VERSION, method_result, protocol, versions
from ropewalk.extend.world import ranks
from ropewalk.measure.documents import Documents as Stretches
from ropewalk.measure.retrieval import DEPTHS
from ropewalk.measure.verdict import TOLERANCE
from ropewalk.report.words import verdict


def measure(
    model: Model = None,
    *,
    text: Text = None,
    length: Annotated[
        int, typer.Option("--length", metavar="N", help="Tokens to measure to, beyond the native length.")
    ],
    method: Annotated[
        str, typer.Option("--method", metavar="M", help="none (the model as it is), crop, or an extension method.")
    ] = "none",
    documents: Documents = 48,
    trials: Trials = 12,
    needles: Needles = DEPTHS,
    temperature: Temperature = None,
    tolerance: Tolerance = TOLERANCE,
    dtype: Dtype = "auto",
    device: Device = "auto",
    probe: Annotated[bool, typer.Option("--probe", help="The probe in place of full passes: minutes.")] = False,
    as_json: Json = False,
) -> None:
    """Measure the loss at every position, and how far the model reads.

    With --probe it is the loss at the end of a text whose beginning is read cheaply: a screening, in minutes.

    Example: ropewalk measure ./SmolLM2-135M --text hamlet.txt --length 16384 --method yarn
    """
    path, texts = model_and_texts(model, text)
    plan = make_plan(
        path,
        texts,
        length,
        (method,),
        documents=documents,
        trials=trials,
        tolerance=tolerance,
        needles=needles,
        temperature=temperature,
        quick=probe,
        dtype=dtype,
        device=device,
    )
    if probe and method == "crop":
        raise RopewalkError(
            "crop reads nothing past the native length, so there is nothing to probe; leave --probe out"
        )
    with ranks() as world, watched(world) as watch:
        memory = Memory.of(plan, writes=False)
        if world.is_first:
            watch.memory(memory)
        watch.stage("loading the model")
        with memory:
            loaded, passes = prepare(plan), Passes(told=watch.progress, world=world)
            found = _probed(plan, *loaded, passes) if probe else _measured(plan, method, *loaded, passes)
        used = memory.result(max(world.of_all(memory.peak)))
    if not world.is_first:
        return
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, **found.content, "memory": used, "versions": versions()})
    else:
        console = Console()
        console.print(found.table)
        if found.words:
            console.print(found.words, highlight=False)
        console.print(memory_used(used), highlight=False)


class _Found(NamedTuple):
    content: dict[str, Any]
    table: Table
    words: str = ""


def _measured(plan: Plan, method: str, documents: Stretches, checkpoint: Checkpoint, passes: Passes) -> _Found:
    measurement = run(plan, documents, checkpoint, passes)
    results = [method_result(plan, measurement, measured) for measured in measurement.methods]
    asked = next(result for result in results if result["method"] == method)
    shared = {"tolerance": plan.tolerance, "protocol": protocol(plan, measurement)}
    words = verdict({"methods": results, **shared}, method)
    return _Found({**asked, **shared}, method_table(plan.native, plan.target, results), words)


def _probed(plan: Plan, passages: Stretches, checkpoint: Checkpoint, passes: Passes) -> _Found:
    result = probe_result(plan, run_probe(plan, passages, checkpoint, passes))
    return _Found({"probe": result}, probe_table(plan.native, plan.target, result))
