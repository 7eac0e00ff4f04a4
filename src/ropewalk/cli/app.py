"""The commands, put together."""

from typing import Annotated

import typer

import ropewalk
from ropewalk.cli import bench, compare, convert, explore, extend, inspect, measure, models, plot, recipe, verify

app = typer.Typer(
    help="Position encodings of Transformers, and how far a model reads.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("inspect")(inspect.inspect)
app.command("models")(models.models)
app.command("measure")(measure.measure)
app.command("extend")(extend.extend)
app.command("recipe")(recipe.recipe)
app.command("convert")(convert.convert)
app.command("compare")(compare.compare)
app.command("bench")(bench.bench)
app.command("explore")(explore.explore)
app.command("verify")(verify.verify)
app.add_typer(plot.app, name="plot")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"ropewalk {ropewalk.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Position encodings of Transformers, and how far a model reads."""
