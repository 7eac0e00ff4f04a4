"""What a run has finished, in a folder beside its result, so that the next one repeats none of it."""

import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import ropewalk
from ropewalk._errors import RopewalkError
from ropewalk._files import alone, replace_bytes, replace_text
from ropewalk.checkpoints.write import refuse_existing
from ropewalk.extend.placing import described
from ropewalk.extend.plan import Plan

FORMAT = 1  # of the folder; it grows when what a kept pass means changes
RUN, REPORT = "run.json", "report.json"
FREE = ("methods", "needles", "tolerance")  # arguments that change no pass: with others, what is kept still serves
DETERMINING = ("config.json", "*.safetensors", "*.safetensors.index.json")  # the files of a model that make its losses


@dataclass(frozen=True)
class Kept:
    """The losses of passes, one file each, written as the pass ends and whole or not at all.

    Attributes:
        folder: where the files are.
    """

    folder: Path

    def find(self, name: str) -> tuple[Tensor, float] | None:
        """The losses of a pass and the seconds it took; None where it has not been finished.

        Raises:
            RopewalkError: a damaged file.
        """
        path = self.folder / f"{name}.npz"
        if not path.is_file():
            return None
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
                return torch.from_numpy(held["losses"]), float(held["seconds"])
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise RopewalkError(f"{path}: damaged ({error}); remove this file to have it measured again") from error

    def keep(self, name: str, losses: Tensor, seconds: float) -> None:
        """Keep one finished pass."""
        content = io.BytesIO()
        np.savez(content, losses=losses.numpy(), seconds=np.float64(seconds))
        replace_bytes(self.folder / f"{name}.npz", content.getvalue())

    def ends_with(self, report: Path) -> None:
        """Note that all is written, and with which report, just before the result gets its name."""
        _note(self.folder, {**_held(self.folder), "report": _digest(report)})

    def finished(self, out: Path) -> dict[str, Any] | None:
        """The report at `out`, if the run was stopped when nothing but clearing up was left."""
        path = out / REPORT
        if not path.is_file() or _digest(path) != _held(self.folder).get("report"):
            return None
        return json.loads(path.read_text(encoding="utf-8"))


def beside(out: Path) -> Path:
    """The folder in which a run to `out` keeps what it has finished, until `out` is there."""
    return out.with_name(f".{out.name}.measured")


def arguments(plan: Plan) -> dict[str, Any]:
    """What determines a report, as plain JSON. Where it agrees, but for `FREE`, two runs have the same passes."""
    import transformers

    files = [file for pattern in DETERMINING for file in sorted(plan.model.glob(pattern))] or [plan.model]
    versions = {package.__name__: package.__version__ for package in (ropewalk, torch, transformers)}
    return {
        "format": FORMAT,
        "versions": versions,
        "model": [plan.model.resolve().name, *([file.name, _digest(file)] for file in files)],
        "text": [[file.name, _digest(file)] for file in plan.texts],
        "target": plan.target,
        "documents": plan.documents,
        "trials": plan.trials,
        "needles": plan.needles,
        "quick": plan.quick,
        "tolerance": plan.tolerance,
        "methods": list(plan.methods),
        "weights": plan.weights_dtype,
        "device": described(plan.device),
    }


@contextmanager
def keeping(out: Path, stated: dict[str, Any], *, resume: bool) -> Iterator[Kept]:
    """The folder beside `out`, for this process alone; it goes when the block ends well, or when it holds no pass.

    Args:
        out: what the run shall write.
        stated: its `arguments`.
        resume: go on with what the folder holds.

    Raises:
        RopewalkError: `out` cannot be written; the folder holds something and `resume` is not set, or passes of
            other arguments; another run is at work in it.
    """
    folder, ended = beside(out), False
    if not folder.exists():
        refuse_existing(out)
        folder.mkdir()
    with alone(folder, f"{folder}: another run to {out}"):
        _agree(folder, stated, resume)
        try:
            yield Kept(folder)
            ended = True
        finally:
            if ended or not any(folder.glob("*.npz")):
                _remove(folder)


def _agree(folder: Path, stated: dict[str, Any], resume: bool) -> None:
    """Refuse what this run may not go on with, and clear away a checkpoint that was being written."""
    held = _held(folder)
    if not held and any(entry.name[0] != "." for entry in folder.iterdir()):
        raise RopewalkError(f"{folder}: not a folder of ropewalk's; remove it, or give another --out")
    if held and not resume:
        raise RopewalkError(
            f"{folder} holds what a run had measured when it was stopped; add --resume to go on with it, or remove it"
        )
    if held and (other := _differences(held, stated)):
        raise RopewalkError(
            f"{folder} was measured with {' and '.join(other)}; give the arguments that it was begun with, or another "
            "--out, or remove it"
        )
    for unfinished in [entry for entry in folder.iterdir() if entry.is_dir()]:
        shutil.rmtree(unfinished)
    if {key: held.get(key) for key in stated} != stated:
        _note(folder, stated)


def _differences(held: dict[str, Any], stated: dict[str, Any]) -> list[str]:
    """What was held in place of each argument that differs; of files, only that they are others."""
    other = [key for key, value in stated.items() if key not in FREE and held.get(key) != value]
    return [f"another {key}" if key in ("model", "text") else f"{key} {held.get(key)}" for key in other]


def _held(folder: Path) -> dict[str, Any]:
    path = folder / RUN
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _note(folder: Path, content: dict[str, Any]) -> None:
    replace_text(folder / RUN, json.dumps(content, indent=2))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove(folder: Path) -> None:
    """Its `run.json` goes last: as long as that is there, a run stopped in between is known to have ended."""
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name != RUN:
            entry.unlink()
    shutil.rmtree(folder)
