"""What the headers of a model's weights say, which are read without the weights."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ropewalk._errors import RopewalkError

FLOATS = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}  # as safetensors names them


def quantisation(config: Mapping[str, Any]) -> str | None:
    """The method by which the weights are quantised; None where they are not."""
    stated = config.get("quantization_config")
    return str(stated.get("quant_method", "an unnamed method")) if isinstance(stated, Mapping) else None


def shards(path: Path) -> list[Path]:
    """The files that hold the weights of the model directory at `path`.

    Raises:
        RopewalkError: there is none.
    """
    found = sorted(path.glob("*.safetensors"))
    if not found:
        raise RopewalkError(f"{path}: no *.safetensors file; only safetensors and GGUF weights are read (no pickle)")
    return found


@contextmanager
def opened(shard: Path) -> Iterator[Any]:
    """The header of a safetensors file, whose tensors are not read.

    Raises:
        RopewalkError: a damaged file.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(shard, framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise RopewalkError(f"{shard}: damaged or cut short ({error}); fetch it again") from error


def elements(path: Path) -> Counter[str]:
    """How many numbers of each dtype, as safetensors names it, the weights of the model at `path` are.

    Those of a .gguf count as float32, since they are dequantised.

    Raises:
        RopewalkError: no weights, or a damaged file.
    """
    if path.suffix == ".gguf":
        from gguf import GGUFReader

        return Counter(F32=sum(int(tensor.n_elements) for tensor in GGUFReader(path).tensors))
    found: Counter[str] = Counter()
    for shard in shards(path):
        with opened(shard) as file:
            for name in file.keys():  # noqa: SIM118, it is no mapping
                tensor = file.get_slice(name)
                found[tensor.get_dtype()] += torch.Size(tensor.get_shape()).numel()
    return found


def stored_dtype(path: Path) -> torch.dtype:
    """That of most floating-point weights, float32 where there are none.

    Raises:
        RopewalkError: no weights, or a damaged file.
    """
    found = {name: count for name, count in elements(path).items() if name in FLOATS}
    return FLOATS[max(found, key=found.__getitem__)] if found else torch.float32


def width(name: str) -> int:
    """Bytes of a number of the dtype that safetensors calls `name`, such as "BF16", "F8_E4M3" or "BOOL"."""
    bits = re.search(r"\d+", name)
    return int(bits[0]) // 8 if bits else 1
