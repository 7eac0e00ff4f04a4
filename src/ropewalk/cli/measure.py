"""`ropewalk measure`: how far a model reads under one method."""

from typing import Annotated

import typer
from rich.console import Console

from ropewalk.cli.progress import watched
from ropewalk.cli.shared import (
    Documents,
    Json,
    Model,
    Needles,
    Temperature,
    Text,
    Tolerance,
    Trials,
    method_table,
    model_and_texts,
    print_json,
)
from ropewalk.extend.measuring import measure as run
from ropewalk.extend.measuring import prepare
from ropewalk.extend.passes import Passes
from ropewalk.extend.plan import plan as make_plan
from ropewalk.extend.result import SCHEMA_VERSION, method_result, protocol, versions
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
    as_json: Json = False,
) -> None:
    """Measure the loss at every position, and how far the model reads.

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
    )
    with watched() as watch:
        watch.stage("loading the model")
        measurement = run(plan, *prepare(plan), Passes(told=watch.progress))
    results = [method_result(plan, measurement, measured) for measured in measurement.methods]
    shared = {"tolerance": tolerance, "protocol": protocol(plan, measurement)}
    if as_json:
        asked = next(result for result in results if result["method"] == method)
        print_json({"schema_version": SCHEMA_VERSION, **asked, **shared, "versions": versions()})
    else:
        console = Console()
        console.print(method_table(plan.native, plan.target, results))
        console.print(verdict({"methods": results, **shared}, method), highlight=False)
