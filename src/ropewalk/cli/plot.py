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
from ropewalk.explorer.alibi import numbers as alibi_numbers
from ropewalk.explorer.comparison import numbers as comparison_numbers
from ropewalk.explorer.rotation import HEAD_DIM, SIDE, K, Q
from ropewalk.explorer.rotation import numbers as rotation_numbers
from ropewalk.explorer.score import numbers as score_numbers
from ropewalk.explorer.shuffle import FOLLOWS
from ropewalk.explorer.shuffle import numbers as shuffle_numbers
from ropewalk.explorer.t5 import numbers as t5_numbers
from ropewalk.explorer.waves import numbers as waves_numbers
from ropewalk.extend.methods import DEFAULT, scaling_for
from ropewalk.functional import sinusoidal

app = typer.Typer(help="Draw what `ropewalk explore` shows, or a result.", no_args_is_help=True)
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


@app.command()
def waves(
    out: Out,
    dim: Annotated[int, typer.Option(help="Dimensions of the encoding, even.")] = 32,
    length: Annotated[int, typer.Option(help="Positions.")] = 100,
    pair: Annotated[int, typer.Option(min=0, help="The pair before the others.")] = 4,
    offset: Annotated[int, typer.Option(help="Positions that the matrix moves by.")] = 5,
) -> None:
    """The sinusoids as waves, and the matrix that moves every position by the same step.

    Example: ropewalk plot waves --out waves.png
    """
    found = waves_numbers({"dim": dim, "length": length, "offset": offset, "position": 0})
    if pair >= dim // 2:
        raise RopewalkError(f"pair={pair}: {dim} dimensions are the pairs 0 to {dim // 2 - 1}")
    _save(plots.waves(found.table.numpy(), found.shift.numpy(), pair, offset), out)


@app.command()
def rotation(
    out: Out,
    m: Annotated[int, typer.Option(min=0, max=SIDE - 1, help="Position of the query.")] = 9,
    n: Annotated[int, typer.Option(min=0, max=SIDE - 1, help="Position of the key.")] = 3,
    pair: Annotated[int, typer.Option(min=0, max=HEAD_DIM // 2 - 1, help="Pair of a head of 64.")] = 6,
) -> None:
    """One pair of q and k, turned by their positions, and the score of every two positions.

    Example: ropewalk plot rotation --m 9 --n 3 --out rotation.png
    """
    found = rotation_numbers({"m": m, "n": n, "step": 0, "pair": pair})
    arrows: dict[str, Any] = {
        "q": (Q, "#2a6fbb", ":"),
        "k": (K, "#b84300", ":"),
        f"q at m = {m}": (found.q.numpy(), "#2a6fbb", "-"),
        f"k at n = {n}: score {found.score:.4f}": (found.k.numpy(), "#b84300", "-"),
    }
    _save(plots.rotation(arrows, found.scores.numpy(), (m, n)), out)


@app.command()
def score(
    out: Out,
    head_dim: Annotated[int, typer.Option(help="Width of the head, even.")] = 64,
    base: Annotated[float, typer.Option(help="Base of the frequencies.")] = 10_000.0,
    farthest: Annotated[int, typer.Option("--to", metavar="N", min=1, help="The farthest distance.")] = 512,
    peak: Annotated[int, typer.Option(min=0, help="The distance for which a key is made.")] = 100,
) -> None:
    """The rotary score against distance: aligned, random, and of a key made for one distance.

    Example: ropewalk plot score --out score.png
    """
    found = score_numbers(head_dim, base, farthest, peak)
    band = ((found.mean - found.deviation).numpy(), (found.mean + found.deviation).numpy())
    lines = {"aligned, q = k": found.aligned.numpy(), f"a key made for distance {peak}": found.placed.numpy()}
    _save(plots.score(found.distances.numpy(), lines, band), out)


@app.command()
def biases(
    out: Out,
    length: Annotated[int, typer.Option(min=1, help="Tokens.")] = 32,
    heads: Annotated[int, typer.Option(help="Heads of ALiBi.")] = 8,
    head: Annotated[int, typer.Option(min=1, help="The head that is drawn, from 1.")] = 3,
) -> None:
    """ALiBi's bias of one head and T5's buckets, causal.

    Example: ropewalk plot biases --out biases.png
    """
    found = alibi_numbers(heads, length, causal=True)
    if head > heads:
        raise RopewalkError(f"head={head}: there are {heads}")
    buckets = t5_numbers(length, 32, 128, causal=True)
    matrices = {
        f"ALiBi, head {head} of {heads}, slope {found.slopes[head - 1]:g}": (found.bias[head - 1].numpy(), "bias"),
        "T5, 32 buckets": (buckets.numpy(), "bucket"),
    }
    _save(plots.biases(matrices), out)


@app.command()
def comparison(out: Out) -> None:
    """Every encoding read past its training length, as docs/comparison.md measured it.

    Example: ropewalk plot comparison --out comparison.png
    """
    _save(plots.comparison(comparison_numbers()), out)


@app.command()
def shuffle(
    out: Out,
    words: Annotated[str, typer.Argument(metavar="[WORDS]", help="A sentence.")] = "the dog bit the man who fed it",
    seed: Annotated[int, typer.Option(help="Which shuffle.")] = 1,
) -> None:
    """Which layers follow a shuffle of their words, and which notice.

    Example: ropewalk plot shuffle --out shuffle.png
    """
    if len(words.split()) < 2:
        raise RopewalkError(f"{words!r}: give two words or more")
    _save(plots.shuffle(shuffle_numbers(words.split(), seed).strays, FOLLOWS), out)


def _save(figure: Any, out: Path) -> None:
    if out.suffix not in (".png", ".svg"):
        raise RopewalkError(f"{out}: pictures are written as .png or .svg")
    if not out.parent.is_dir():
        raise RopewalkError(f"{out.parent}: no such folder")
    figure.savefig(out, dpi=150)
