"""Write the converted checkpoint, one tensor in memory at a time."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from ropewalk.checkpoints.convert.tensors import Piece
from ropewalk.checkpoints.spec import INTERLEAVE, ModelSpec
from ropewalk.checkpoints.write import CARRIED, link, write_json

Told = Callable[[str, float], None]  # what is being done, and the share of it that is done


def rewrite(path: Path, folder: Path, found: Sequence[Piece], spec: ModelSpec, to: str, told: Told) -> None:
    """Fill `folder` with the checkpoint at `path`, its queries and keys laid out as `to` says.

    Rows change places within their tensor, so that files keep their headers, and a shard without queries and keys is
    linked. No number is computed with.
    """
    touched = {piece.shard for piece in found}
    for file in sorted({file for pattern in CARRIED for file in path.glob(pattern)}):
        if file not in touched:
            link(file, folder / file.name)
    for number, shard in enumerate(sorted(touched)):
        told("writing", number / len(touched))
        shutil.copyfile(shard, folder / shard.name)
        _turn(folder / shard.name, [piece for piece in found if piece.shard == shard], to)
    write_json(folder / "config.json", stated(spec, to))


def stated(spec: ModelSpec, to: str) -> dict[str, object]:
    """The config, with the key that says so where the model type's own code has the other pairing, or both."""
    config = spec.to_config()
    config.pop(INTERLEAVE, None)
    return config if to == spec.rule.layout and not spec.rule.switch else {**config, INTERLEAVE: to == "interleaved"}


def _turn(file: Path, found: list[Piece], to: str) -> None:
    with file.open("r+b") as weights:
        for piece in found:
            weights.seek(piece.begin)
            rows = torch.frombuffer(bytearray(weights.read(piece.end - piece.begin)), dtype=torch.uint8)
            weights.seek(piece.begin)
            weights.write(rows.view(piece.rows, -1)[piece.order(to)].numpy().tobytes())
