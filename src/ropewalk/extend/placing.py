"""Where a model is measured, and in which numbers."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ropewalk._checks import one_of
from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.weights import quantisation, stored_dtype

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def device_for(asked: str) -> str:
    """The device that `asked` names: "cpu", "cuda", "cuda:1", "mps", or "auto", which is CUDA where there is any.

    Among the ranks of torchrun each has the CUDA device of its own number.

    Raises:
        RopewalkError: another name, or a device that this machine does not have.
    """
    kind, _, index = asked.partition(":")
    if asked == "auto":
        kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind not in ("cpu", "cuda", "mps") or (index and (kind != "cuda" or not index.isdecimal())):
        raise RopewalkError(f"extend: device={asked!r} is not auto, cpu, cuda, cuda:N or mps")
    if kind == "mps" and not torch.backends.mps.is_available():
        raise RopewalkError("extend: device='mps', which torch does not find here; give cpu")
    return _cuda(int(index) if index else None) if kind == "cuda" else kind


def _cuda(index: int | None) -> str:
    there, rank = torch.cuda.device_count(), int(os.environ.get("LOCAL_RANK", "0"))
    if not torch.cuda.is_available():
        raise RopewalkError("extend: device='cuda', which torch does not find here; give cpu")
    wanted = rank if index is None else index
    if wanted >= there:
        raise RopewalkError(f"extend: CUDA device {wanted} is asked for, and {there} are there; one rank needs one")
    if rank and index is not None:
        raise RopewalkError(f"extend: device='cuda:{index}' for several ranks; give cuda, and each takes its own")
    return f"cuda:{wanted}"


def dtype_for(asked: str, model: Path, config: Mapping[str, Any], device: str) -> torch.dtype:
    """The dtype that `asked` names: one of `DTYPES`, or "auto".

    "auto" is float32 on the CPU, whose 16-bit arithmetic is slow on most machines and rounds, and as the weights are
    stored elsewhere, where it is what the model will run in. Quantised weights stay as they are on any device, and
    "auto" is for the rest of them as stored.

    Raises:
        RopewalkError: another name.
    """
    if one_of("extend", "dtype", asked, ("auto", *DTYPES)) != "auto":
        return DTYPES[asked]
    if model.suffix == ".gguf" or (device == "cpu" and quantisation(config) is None):
        return torch.float32
    return stored_dtype(model)


def numbers(dtype: torch.dtype, config: Mapping[str, Any]) -> str:
    """The weights' dtype in words: "bfloat16", or "bfloat16, quantised by gptq"."""
    name, quantised = str(dtype).removeprefix("torch."), quantisation(config)
    return f"{name}, quantised by {quantised}" if quantised else name


def described(device: str) -> str:
    """A device in words, without its number: "cpu", or "cuda, NVIDIA H200", since two kinds round differently."""
    return f"cuda, {torch.cuda.get_device_name(device)}" if device.startswith("cuda") else device
