"""`ropewalk inspect`: what a config says about position, and what in it deserves a second look."""

import math
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ropewalk.checkpoints.config import examined
from ropewalk.checkpoints.errors import ConfigError, Finding
from ropewalk.checkpoints.load import SHIPPED
from ropewalk.checkpoints.spec import IN_WORDS, LayerSpec, ModelSpec
from ropewalk.cli.shared import Json, Model, print_json
from ropewalk.extend.result import SCHEMA_VERSION

STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}
ROWS = 10  # of the spectrum: the whole answer fits a screen


def inspect(
    model: Model = None,
    to: Annotated[
        int | None,
        typer.Option("--to", metavar="N", min=1, help="Also say which pairs meet unseen angles at N tokens."),
    ] = None,
    part: Annotated[
        str | None,
        typer.Option("--part", metavar="KEY", help="Of a composite model, the part to read, such as vision_config."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what a model's config states about position, and find what is wrong with it.

    MODEL may also be a preset's name (see `ropewalk models`) or a model id in the local Hugging Face cache.
    The exit status is 1 when a finding is an error or a warning.

    Example: ropewalk inspect llama-3.1-8b --to 262144
    """
    try:
        spec: ModelSpec | None = examined(SHIPPED if model is None else model, part=part, to=to)
        findings = spec.findings if spec else ()
    except ConfigError as error:
        spec, findings = None, (error.finding,)
    if as_json:
        print_json(describe(spec, findings, to))
    else:
        _print(spec, findings, to)
    if any(finding.severity != "note" for finding in findings):
        raise typer.Exit(1)


def describe(spec: ModelSpec | None, findings: tuple[Finding, ...], to: int | None) -> dict[str, Any]:
    """The content of `inspect --json`; without a spec, the finding that stopped the reading."""
    layers = spec.layers if spec else ()
    return {
        "schema_version": SCHEMA_VERSION,
        "model_type": spec.model_type if spec else None,
        "native_length": spec.native_length if spec else None,
        "max_length": spec.max_length if spec else None,
        "layers": [{"layer": index, **_layer(layer)} for index, layer in enumerate(layers)],
        "pairs": _pairs(spec, to) if spec else [],
        "findings": [finding.to_dict() for finding in findings],
    }


def _layer(layer: LayerSpec) -> dict[str, Any]:
    turning = layer.rotates
    return {
        "encoding": layer.encoding,
        "type": layer.kind or None,
        "head_dim": layer.head_dim,
        "rotary_dim": layer.rotary_dim,
        "partial": layer.partial,
        "layout": layer.layout if turning else None,
        "base": layer.base,
        "scaling": type(layer.scaling).__name__ if layer.scaling else None,
        "attention_factor": layer.rotary().attention_factor if turning else None,
        "softmax_factor": layer.softmax_factor if turning else None,
        "axes": max(layer.axes) + 1 if layer.axes else None,
        "window": layer.window,
        "chunk": layer.chunk,
    }


def _pairs(spec: ModelSpec, to: int | None) -> list[dict[str, Any]]:
    """The spectrum of the layer by which the model reads far."""
    rows, native, main = [], spec.native_length, spec.main
    if not main.rotates:
        return []
    trained = replace(main, scaling=None).rotary().inv_freq.tolist()
    scaled = main.rotary().frequencies(to).inv_freq.tolist()
    for pair, (before, now) in enumerate(zip(trained, scaled, strict=True)):
        rows.append({"pair": pair, "wavelength": 2 * math.pi / now if now else None, "turns": None})
        if native is None:
            continue
        rows[-1]["turns"] = now * native / (2 * math.pi)
        if to is not None:  # an angle that no token of the native length had, nor one a full turn away from it
            rows[-1]["unseen"] = before * native < 2 * math.pi and now * to > before * native * (1 + 1e-9)
    return rows


def _print(spec: ModelSpec | None, findings: tuple[Finding, ...], to: int | None) -> None:
    console = Console()
    if spec is not None:
        _print_spec(console, spec, to)
    for finding in findings:
        name = Text(f"{finding.severity} {finding.code}", style=STYLES[finding.severity])
        fix = f" -> {finding.fix}" if finding.fix else ""
        console.print(name, Text(f"{finding.message}{fix}"))
    if not findings:
        console.print("no findings")


def _print_spec(console: Console, spec: ModelSpec, to: int | None) -> None:
    length = "no stated length" if spec.native_length is None else f"native length {spec.native_length:,}"
    claim = f", claims {spec.max_length:,}" if spec.max_length not in (None, spec.native_length) else ""
    console.print(f"{spec.model_type}: {len(spec.layers)} layers, {length}{claim}", highlight=False)
    groups: dict[LayerSpec, list[int]] = {}
    for index, layer in enumerate(spec.layers):
        groups.setdefault(layer, []).append(index)
    for layer, indices in groups.items():
        which = "all layers" if len(groups) == 1 else f"{len(indices)} layers ({_listed(indices)})"
        console.print(Text(f"  {which}: {in_words(layer)}"))
    pairs = _pairs(spec, to)
    if pairs and spec.native_length is not None:
        _print_spectrum(console, pairs, to)


def in_words(layer: LayerSpec) -> str:
    """One layer in a line."""
    seen = f", window {layer.window:,}" if layer.window is not None else ""
    seen += f", chunks of {layer.chunk:,}" if layer.chunk is not None else ""
    if not layer.rotates:
        kind = f"{layer.kind}, " if layer.kind else ""
        return f"{kind}{IN_WORDS.get(layer.encoding, layer.encoding)}{seen}"
    part = {"whole": "whole head", "leading": "leading", "trailing": "trailing", "proportional": "fast pairs of"}
    width = f"{part[layer.partial or 'whole']} {layer.rotary_dim} of {layer.head_dim}"
    scaling = "none" if layer.scaling is None else _short(str(layer.scaling))
    axes = f", {max(layer.axes) + 1} axes" if layer.axes else ""
    factor = f", softmax x {layer.softmax_factor:.4g}" if layer.softmax_factor != 1 else ""
    return f"{layer.encoding}, {width}, {layer.layout}{axes}, base {layer.base:g}, scaling {scaling}{factor}{seen}"


def _short(scaling: str) -> str:
    return scaling if len(scaling) < 160 else scaling.split("(")[0] + "(...)"


def _listed(indices: list[int]) -> str:
    shown = ", ".join(map(str, indices[:6]))
    return shown + (", ..." if len(indices) > 6 else "")


def _print_spectrum(console: Console, pairs: list[dict[str, Any]], to: int | None) -> None:
    table = Table()
    for column in ("pair", "wavelength", "turns in native") + ((f"at {to:,}",) if to else ()):
        table.add_column(column, justify="right")
    step = max(1, -(-len(pairs) // ROWS))
    for row in pairs[::step]:
        wave = "stopped" if row["wavelength"] is None else f"{row['wavelength']:,.1f}"
        state = ("unseen angles" if row["unseen"] else "seen",) if to else ()
        table.add_row(str(row["pair"]), wave, f"{row['turns']:.2f}", *state)
    console.print(table)
    slow = sum(0 < row["turns"] < 1 for row in pairs)
    unseen = sum(row.get("unseen", False) for row in pairs)
    more = f"; {unseen} meet unseen angles at {to:,}" if to else ""
    console.print(f"{slow} of {len(pairs)} pairs never finish a turn within the native length{more}.", highlight=False)
