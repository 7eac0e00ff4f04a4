"""`ropewalk plot`: the pictures."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ropewalk import plots, positions
from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.config import from_config
from ropewalk.checkpoints.load import SHIPPED
from ropewalk.cli.shared import Model
from ropewalk.extend.methods import DEFAULT, scaling_for
from ropewalk.functional import sinusoidal

app = typer.Typer(help="Draw a position encoding, a rotary spectrum or a result.", no_args_is_help=True)
Out = Annotated[Path, typer.Option("--out", metavar="FILE", help="The picture: .png or .svg.")]


@app.command()
def grid(
    out: Out,
    dim: Annotated[int, typer.Option(help="Dimensions of the encoding.")] = 32,
    length: Annotated[int, typer.Option(help="Positions.")] = 20,
) -> None:
    """The heat map of the sinusoidal encoding.

    Example: ropewalk plot grid --out grid.png
    """
    _save(plots.grid(sinusoidal(positions.arange(length), dim).numpy()), out)


@app.command()
def spectrum(
    out: Out,
    model: Model = None,
    to: Annotated[
        int | None,
        typer.Option("--to", metavar="N", min=1, help="The length to reach; four times native when left out."),
    ] = None,
    methods: Annotated[str, typer.Option("--methods", metavar="A,B", help="Methods to draw.")] = ",".join(DEFAULT),
) -> None:
    """The wavelength of each rotary pair, before and after each method.

    Example: ropewalk plot spectrum ./SmolLM2-135M --to 16384 --out spectrum.png
    """
    spec = from_config(SHIPPED if model is None else model).uniform()
    native = spec.length
    target = 4 * native if to is None else to
    frequencies: dict[str, Any] = {"native": spec.extended(None, native).layers[0].rotary().inv_freq.numpy()}
    for name in filter(None, methods.split(",")):
        scaled = spec.extended(scaling_for(name, target / native, native), target).layers[0].rotary()
        frequencies[name] = scaled.frequencies(target).inv_freq.numpy()
    _save(plots.spectrum(frequencies, native, target), out)


@app.command()
def curves(
    out: Out,
    result: Annotated[Path, typer.Argument(metavar="REPORT", help="A report.json that `ropewalk extend` wrote.")],
) -> None:
    """Loss by position, as a result has it.

    Example: ropewalk plot curves extended/report.json --out curves.png
    """
    try:
        report = json.loads(result.read_text(encoding="utf-8"))
        if report.get("quick"):
            raise RopewalkError(f"{result}: a quick report, which has no curves; give that of full passes")
        drawn = plots.curves(report)
    except RopewalkError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RopewalkError(f"{result}: not a report.json of `ropewalk extend` ({error!r})") from error
    _save(drawn, out)


def _save(figure: Any, out: Path) -> None:
    if out.suffix not in (".png", ".svg"):
        raise RopewalkError(f"{out}: pictures are written as .png or .svg")
    if not out.parent.is_dir():
        raise RopewalkError(f"{out.parent}: no such folder")
    figure.savefig(out, dpi=150)
