"""Where a config comes from: a dict, an object, a file, a folder, a preset, or the local Hugging Face cache."""

import json
import os
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.gguf import read_gguf_config
from ropewalk.checkpoints.presets import PRESETS


def read_config(source: Any) -> dict[str, Any]:
    """The config behind `source`, as a plain dict; nothing is fetched from anywhere.

    Args:
        source: a dict, a transformers config object, a config.json, a model directory, a .gguf file, the name of a
            preset (`ropewalk models`), or a model id such as "org/name" in the local Hugging Face cache.

    Raises:
        RopewalkError: nothing of that name, or a file that holds no config.
    """
    if isinstance(source, Mapping):
        return deepcopy(dict(source))
    if hasattr(source, "to_dict"):
        return source.to_dict()
    if not isinstance(source, str | os.PathLike):
        raise RopewalkError(f"from_config: {type(source).__name__} is no config; give a dict, a path or a name")
    path = Path(source)
    if not path.exists():
        return _named(str(source))
    return _file(path / "config.json" if path.is_dir() else path)


def _file(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise RopewalkError(f"{path}: no such file; give a model directory with a config.json, or a .gguf file")
    if path.suffix == ".gguf":
        return read_gguf_config(path)
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise RopewalkError(f"{path}: not JSON ({error})") from error
    if not isinstance(config, dict):
        raise RopewalkError(f"{path}: holds {type(config).__name__}, not the object that a config is")
    return config


def _named(name: str) -> dict[str, Any]:
    if name in PRESETS:
        return PRESETS[name].published_config()
    cached = cached_config(name)
    if cached is None:
        raise RopewalkError(
            f"{name}: no such file, preset or cached model; give a model directory with a config.json, a .gguf file, "
            "a name that `ropewalk models` lists, or the id of a model in the local Hugging Face cache"
        )
    return _file(cached)


def cached_config(model_id: str) -> Path | None:
    """The config.json of a model id in the local Hugging Face cache, at the revision that `main` names there."""
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache/huggingface"))
    hub = Path(os.environ.get("HF_HUB_CACHE", os.environ.get("HUGGINGFACE_HUB_CACHE", home / "hub")))
    folder = hub / f"models--{model_id.replace('/', '--')}"
    revision = folder / "refs/main"
    if not revision.is_file():
        return None
    found = folder / "snapshots" / revision.read_text(encoding="utf-8").strip() / "config.json"
    return found if found.is_file() else None
