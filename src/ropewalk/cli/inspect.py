"""`ropewalk inspect`: what a config says about position."""

import math
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ropewalk.checkpoints.config import from_config
from ropewalk.checkpoints.load import SHIPPED
from ropewalk.checkpoints.spec import ModelSpec
from ropewalk.cli.shared import Json, Model, print_json
from ropewalk.extend.result import SCHEMA_VERSION


def inspect(
    model: Model = None,
    to: Annotated[
        int | None,
        typer.Option("--to", metavar="N", min=1, help="Also say which pairs meet unseen angles at N tokens."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what a model's config states about position.

    Example: ropewalk inspect ./SmolLM2-135M --to 16384
    """
    spec = from_config(SHIPPED if model is None else model)
    content = describe(spec, to)
    if as_json:
        print_json(content)
    else:
        _print(spec, content, to)


def describe(spec: ModelSpec, to: int | None) -> dict[str, Any]:
    """The content of `inspect --json`."""
    layers = []
    for index, layer in enumerate(spec.layers):
        layers.append(
            {
                "layer": index,
                "encoding": layer.encoding,
                "head_dim": layer.head_dim,
                "rotary_dim": layer.rotary_dim,
                "layout": layer.layout,
                "base": layer.base,
                "scaling": type(layer.scaling).__name__ if layer.scaling else None,
                "attention_factor": layer.rotary().attention_factor,
                "window": layer.window,
            }
        )
    return {
        "schema_version": SCHEMA_VERSION,
        "native_length": spec.native_length,
        "layers": layers,
        "pairs": _pairs(spec, to),
        "findings": [],
    }


def _pairs(spec: ModelSpec, to: int | None) -> list[dict[str, Any]]:
    rows, native = [], spec.native_length
    trained = spec.extended(None, native).layers[0].rotary().inv_freq.tolist()
    scaled = spec.layers[0].rotary().frequencies(to).inv_freq.tolist()
    for pair, (before, now) in enumerate(zip(trained, scaled, strict=True)):
        wavelength = 2 * math.pi / now if now else None
        rows.append({"pair": pair, "wavelength": wavelength, "turns": now * native / (2 * math.pi)})
        if to is not None:  # an angle that no token of the native length had, nor one a full turn away from it
            rows[-1]["unseen"] = before * native < 2 * math.pi and now * to > before * native * (1 + 1e-9)
    return rows


def _print(spec: ModelSpec, content: dict[str, Any], to: int | None) -> None:
    console, layer = Console(), spec.layers[0]
    scaling = layer.scaling if layer.scaling else "none"
    console.print(
        f"{spec.model_type}: {len(spec.layers)} layers, rotary, native length {spec.native_length:,}", highlight=False
    )
    console.print(
        f"head_dim {layer.head_dim}, rotary_dim {layer.rotary_dim}, {layer.layout} layout, "
        f"base {layer.base:g}, scaling {scaling}",
        highlight=False,
    )
    table = Table()
    for column in ("pair", "wavelength", "turns in native") + ((f"at {to:,}",) if to else ()):
        table.add_column(column, justify="right")
    pairs = content["pairs"]
    for row in pairs[:: max(1, len(pairs) // 16)]:
        wave = "stopped" if row["wavelength"] is None else f"{row['wavelength']:,.1f}"
        state = ("unseen angles" if row["unseen"] else "seen",) if to else ()
        table.add_row(str(row["pair"]), wave, f"{row['turns']:.2f}", *state)
    console.print(table)
    slow = sum(0 < row["turns"] < 1 for row in pairs)
    console.print(f"{slow} of {len(pairs)} pairs never finish a turn within the native length.", highlight=False)
