"""Lay queries and keys of a checkpoint out for the other rotary pairing, and prove that nothing else changed."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ropewalk._checks import one_of
from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.config import from_config
from ropewalk.checkpoints.convert.families import family_of
from ropewalk.checkpoints.convert.files import Told, rewrite
from ropewalk.checkpoints.convert.proof import TOLERANCE, logits_error, scores_error
from ropewalk.checkpoints.convert.tensors import pieces
from ropewalk.checkpoints.load import load
from ropewalk.checkpoints.spec import INTERLEAVE, ModelSpec
from ropewalk.checkpoints.weights import quantisation
from ropewalk.checkpoints.write import refuse_existing, whole_folder, write_checkpoint
from ropewalk.functional.rotary import LAYOUTS


@dataclass(frozen=True)
class Conversion:
    """What was converted, and what holds the result to the original.

    Attributes:
        before, after: the pairing that the weights had, and the one that they have.
        native: the pairing of transformers' code for this model type.
        key: what the written config says about it; None where nothing needs to be said.
        misread_by: who reads the result wrong without a word; empty where every reader of its model type is right.
        tensors, layers: how many were turned.
        tolerance: of both errors below: a share of the largest score or logit.
        scores_error: of the attention scores of random hidden states, in the worst layer.
        misread_error: the same if the new weights are read under the old pairing, in the best layer.
        logits_error: of the model's logits; None where they were not compared.
        not_run: why not; empty otherwise.
    """

    model_type: str
    before: str
    after: str
    native: str
    key: str | None
    misread_by: str
    tensors: int
    layers: int
    tolerance: float
    scores_error: float
    misread_error: float
    logits_error: float | None
    not_run: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As the JSON has it."""
        return asdict(self)


def convert(
    model: str | Path,
    *,
    layout: str,
    out: str | Path,
    memory: int | None = None,
    told: Told = lambda doing, share: None,
) -> Conversion:
    """Write the checkpoint `model` with its queries and keys laid out for code that pairs features as `layout` says.

    Features change places within each head, in the weights, biases and norms of queries and keys, so that every score
    stays: q' . k' = q . k. The numbers keep their bits and their dtype, and one tensor at a time is in memory. The
    result is reloaded and held to the original before it appears.

    Args:
        model: a directory with config.json and *.safetensors, or a .gguf file.
        layout: "half" (feature i pairs with i + P: transformers' Llama) or "interleaved" (2i with 2i + 1: Meta's).
        out: a new folder. Where `layout` is not what transformers' code pairs, its config.json says so by
            "rope_interleave", which `from_config`, `checkpoints.load` and `models.load` honour.
        memory: bytes that running the model may take, to compare logits; no limit where it is left out.
        told: is called with what is being done and the share of it that is done.

    Raises:
        RopewalkError: a family that is not in the table, a checkpoint that has that pairing already, quantised
            weights, an `out` that exists.
        VerificationError: scores or logits that moved by more than 1e-5 of the largest; nothing is left then.

    Example:
        >>> from ropewalk.checkpoints.load import SHIPPED
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     done = convert(SHIPPED, layout="interleaved", out=Path(folder) / "new")
        ...     from_config(Path(folder) / "new").main.layout
        'interleaved'
        >>> done.tensors, done.scores_error < 1e-5, done.key
        (8, True, 'rope_interleave: true')
    """
    source, out = Path(model), Path(out)
    refuse_existing(out)
    spec = from_config(source)
    before = _checked(source, spec, layout)
    with _directory(source, spec, out.parent) as path, whole_folder(out) as folder:
        spec = from_config(path)
        found = pieces(path, spec)
        rewrite(path, folder, found, spec, layout, told)
        written = from_config(folder)
        worst, misread = scores_error(path, spec, folder, written, told)
        told("comparing logits", 0.0)
        error, not_run = logits_error(path, folder, memory)
    return Conversion(
        model_type=spec.model_type,
        before=before,
        after=layout,
        native=spec.rule.layout,
        key=_key(written),
        misread_by=_misread_by(written),
        tensors=len(found),
        layers=len({piece.layer for piece in found}),
        tolerance=TOLERANCE,
        scores_error=worst,
        misread_error=misread,
        logits_error=error,
        not_run=not_run,
    )


def _key(written: ModelSpec) -> str | None:
    return f"{INTERLEAVE}: {str(written.config[INTERLEAVE]).lower()}" if INTERLEAVE in written.config else None


def _misread_by(written: ModelSpec) -> str:
    if not written.turned:
        return ""
    return (
        f"transformers' own {written.model_type!r} code turns {written.rule.layout} pairs and does not read the key, "
        "nor is it known to vLLM, SGLang or llama.cpp's converter"
    )


def _checked(source: Path, spec: ModelSpec, layout: str) -> str:
    """The pairing that the weights have, if they can be given the other."""
    one_of("convert", "layout", layout, LAYOUTS)
    family_of(spec.model_type)
    if spec.part:
        raise RopewalkError(f"{source}: convert takes models of text alone, and this one's is its {spec.part}")
    if method := quantisation(spec.config):
        raise RopewalkError(
            f"{source}: quantised by {method}, which packs rows together; convert what it was quantised from, and "
            "quantise that"
        )
    if not (source.is_dir() or source.suffix == ".gguf"):
        raise RopewalkError(f"{source}: holds no weights to convert; give a model directory or a .gguf file")
    if spec.main.layout == layout:
        raise RopewalkError(f"{source}: its pairs are {layout} already; there is nothing to convert")
    return spec.main.layout


@contextmanager
def _directory(source: Path, spec: ModelSpec, within: Path) -> Iterator[Path]:
    """The model as a directory of safetensors; a .gguf is dequantised into one for as long as it takes."""
    if source.is_dir():
        yield source
        return
    with tempfile.TemporaryDirectory(prefix=".convert-", dir=within) as folder:
        write_checkpoint(load(source), spec, Path(folder))
        yield Path(folder)
