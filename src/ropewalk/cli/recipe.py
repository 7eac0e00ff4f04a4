"""`ropewalk recipe`: what to run or paste so that an engine reads a checkpoint as it is meant."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ropewalk.checkpoints.config import from_config
from ropewalk.checkpoints.load import SHIPPED
from ropewalk.checkpoints.presets import PRESETS
from ropewalk.checkpoints.recipes import ENGINES, recipe_for, recipes
from ropewalk.checkpoints.recipes.recipe import REFUSED, Recipe, is_extended
from ropewalk.checkpoints.spec import ModelSpec
from ropewalk.cli.shared import Json, Model, print_json
from ropewalk.extend.result import SCHEMA_VERSION

STYLES = {"run here": "bold green", "documented": "bold cyan", REFUSED: "bold red"}


def recipe(
    model: Model = None,
    engine: Annotated[
        str | None, typer.Option("--for", metavar="ENGINE", help=f"{', '.join(ENGINES)}; left out, all of them.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print how each engine is made to read an extended checkpoint, or why it cannot.

    MODEL may also be a preset's name (see `ropewalk models`) or a model id in the local Hugging Face cache.
    The exit status is 1 when the one engine that was asked for is refused.

    Example: ropewalk recipe smollm2-16k --for vllm
    """
    spec = from_config(SHIPPED if model is None else model)
    name = _name(model)
    found = recipes(spec, name) if engine is None else [recipe_for(engine, spec, name)]
    if as_json:
        print_json(describe(spec, name, found))
    else:
        _print(spec, found)
    if engine is not None and found[0].status == REFUSED:
        raise typer.Exit(1)


def describe(spec: ModelSpec, name: str, found: list[Recipe]) -> dict[str, Any]:
    """The content of `recipe --json`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "model": name,
        "model_type": spec.model_type,
        "native_length": spec.native_length,
        "max_length": spec.max_length,
        "scaling": type(spec.scaling).__name__ if spec.scaling else None,
        "extended": is_extended(spec),
        "recipes": [recipe.to_dict() for recipe in found],
    }


def _name(model: Path | None) -> str:
    """What the commands call it; a preset is no checkpoint, so that a word stands for one."""
    if model is None:
        return str(SHIPPED)
    return "DIR" if not model.exists() and str(model) in PRESETS else str(model)


def _print(spec: ModelSpec, found: list[Recipe]) -> None:
    console = Console()
    if not is_extended(spec):
        console.print("It carries no scaling: nothing is needed but its length.\n")
    for one in found:
        console.print(one.engine, style="bold", end=" ")
        console.print(one.status, style=STYLES[one.status])
        body = one.text.rstrip() if one.status != REFUSED else one.reason
        console.print(body, highlight=False, markup=False, soft_wrap=True)  # a line is a line, for the clipboard
        console.print(f"({one.source})\n", style="dim", highlight=False, markup=False)
