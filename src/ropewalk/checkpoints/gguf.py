"""GGUF metadata as the config that a Hugging Face directory would hold."""

from pathlib import Path
from typing import Any

from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.loader import quietly, transformers, where


def read_gguf_config(path: Path) -> dict[str, Any]:
    """The config in a GGUF file's metadata, as transformers reads it; weights are not touched.

    Raises:
        RopewalkError: not a GGUF, a damaged one, or one with a scaling, which transformers drops without a word.
    """
    with path.open("rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        raise RopewalkError(f"{path}: not a GGUF file")
    folder, safe = where(path)
    with quietly(path):
        config = transformers().AutoConfig.from_pretrained(folder, **safe).to_dict()
        scaled_by = _scaling_facts(path)
    if scaled_by:
        raise RopewalkError(
            f"{path}: it states a scaling ({', '.join(scaled_by)}), which transformers drops from a GGUF; use the "
            "checkpoint that it was converted from"
        )
    return config


def _scaling_facts(path: Path) -> list[str]:
    """The metadata keys and tensors by which a GGUF scales its rotary frequencies."""
    from gguf import GGUFReader

    reader = GGUFReader(path)
    keys = [key for key in reader.fields if ".rope.scaling." in key]
    return keys + [tensor.name for tensor in reader.tensors if tensor.name.startswith("rope_")]
