"""How much memory a run will need, told before it begins, and how much it took."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ropewalk.checkpoints.continuing import STEP
from ropewalk.checkpoints.weights import FLOATS, elements, width
from ropewalk.extend.plan import Plan
from ropewalk.measure.losses import CHUNK, TOKENS_AT_ONCE
from ropewalk.measure.retrieval import texts

LIBRARIES = 100_000_000  # what loading a model brings into the CPU's memory besides it, such as the code of its type


def pass_bytes(config: Mapping[str, Any], rows: int, length: int, width: int) -> int:
    """The memory of one pass over `rows` sequences of `length` tokens, beyond the weights.

    Attention is taken to be fused, so that all grows with the tokens and nothing with their square, and no keys are
    cached. What attention frees does not serve the blocks of another size that follow, so that a layer's parts add up;
    the logits come after them.

    Args:
        config: the keys of a Llama-like config; what it does not state has the value that is usual.
        rows: sequences.
        length: tokens in each.
        width: bytes of a number of the model.
    """
    across, heads = config["hidden_size"], config["num_attention_heads"]
    head = config.get("head_dim") or across // heads
    queries, keys = heads * head, (config.get("num_key_value_heads") or heads) * head
    inner = config.get("intermediate_size") or 4 * across
    layer = 3 * across + 4 * queries + 5 * keys  # residual, its norm in two parts, q, k, v, and the rotation in three
    layer += 3 * inner  # the two wide products and their product
    logits = min(CHUNK, length) * config.get("vocab_size", 0) * ((width if width < 4 else 0) + 3 * 4)
    return rows * max(length * width * layer, length * width * across + logits)


def cache_bytes(config: Mapping[str, Any], length: int, width: int) -> int:
    """The keys and values of `length` tokens in all layers; see `pass_bytes`."""
    heads = config["num_attention_heads"]
    head = config.get("head_dim") or config["hidden_size"] // heads
    return 2 * config["num_hidden_layers"] * (config.get("num_key_value_heads") or heads) * head * length * width


def shapes(plan: Plan) -> set[tuple[int, int]]:
    """Rows and length of every kind of pass in a plan."""
    if plan.quick:
        asked = {(plan.probed, plan.probe_short), (1, min(STEP, plan.probe_end)), (1, plan.probe_window)}
    else:
        asked = {(plan.documents, plan.native), (plan.documents, plan.target)}
        asked |= {(plan.trials, length) for length in plan.contexts}
        asked |= {(texts(plan.needles), length) for length in plan.haystacks}
    return {(min(rows, max(1, TOKENS_AT_ONCE // length)), length) for rows, length in asked}


def predicted(plan: Plan, *, writes: bool) -> int:
    """Bytes that a run takes at its peak on the device of `plan`, beyond what the process holds before.

    Args:
        plan: what is measured. A probe holds the keys and values of each document, and those of one document turned and
            joined with its end.
        writes: whether a checkpoint is written, which is loaded again beside the model that was measured.
    """
    found = elements(plan.model)
    stored = sum(count * width(name) for name, count in found.items())
    weights = sum(n * (plan.dtype.itemsize if name in FLOATS else width(name)) for name, n in found.items())
    mapped = plan.device == "cpu" and all(FLOATS.get(name, plan.dtype) == plan.dtype for name in found)
    if plan.model.suffix == ".gguf":
        mapped, stored = False, plan.model.stat().st_size
    again = (0 if mapped else weights) if writes else 0
    read = stored if plan.device == "cpu" and not mapped else 0  # the file's pages, as long as it is converted
    passing = max(pass_bytes(plan.spec.config, *shape, plan.dtype.itemsize) for shape in shapes(plan))
    if plan.quick:
        passing += (plan.probed + 2) * cache_bytes(plan.spec.config, plan.target, plan.dtype.itemsize)
    return weights + max(passing, again + read) + (LIBRARIES if plan.device == "cpu" else 0)


def available(device: str) -> int | None:
    """Bytes that this process may still take on `device`; None where the system does not say.

    The ranks of one machine share its memory.
    """
    if device.startswith("cuda"):
        return torch.cuda.mem_get_info(device)[0]
    free = _stated("/proc/meminfo", r"MemAvailable:\s+(\d+)")
    if free is None:
        return None
    limit, used = (_stated(f"/sys/fs/cgroup/memory.{name}", r"^(\d+)", 1) for name in ("max", "current"))
    inside = free if limit is None or used is None else max(0, limit - used)
    return min(free, inside) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


@dataclass
class Memory:
    """What a run is predicted to take and, after the block that it is entered for, what it took at its peak.

    Attributes:
        predicted: bytes, by `predicted`.
        available: bytes that are free as it begins; None where the system does not say.
        device: where.
        peak: bytes beyond what the process held as the block began; 0 where the system does not say.
    """

    predicted: int
    available: int | None
    device: str
    peak: int = 0
    _before: int = field(default=0, init=False)

    @classmethod
    def of(cls, plan: Plan, *, writes: bool = True) -> "Memory":
        """Before anything is loaded."""
        return cls(predicted(plan, writes=writes), available(plan.device), plan.device)

    def __enter__(self) -> "Memory":
        if self.device.startswith("cuda"):
            torch.cuda.reset_peak_memory_stats(self.device)
            self._before = torch.cuda.memory_allocated(self.device)
        else:
            self._before = _stated("/proc/self/status", r"VmRSS:\s+(\d+)") or _highest()
        return self

    def __exit__(self, *error: object) -> None:
        on_gpu = self.device.startswith("cuda")
        highest = torch.cuda.max_memory_allocated(self.device) if on_gpu else _highest()
        self.peak = max(0, highest - self._before)

    @property
    def is_short(self) -> bool:
        """Whether less is free than is predicted to be taken."""
        return self.available is not None and self.predicted > self.available

    @property
    def said(self) -> str:
        """The prediction in words, and what to do where it does not fit."""
        told = f"about {gigabytes(self.predicted)} of memory will be needed"
        if self.available is None:
            return told
        told += f", {gigabytes(self.available)} are free on {self.device}"
        hint = "; it may be stopped or crawl: give a shorter length, --dtype bfloat16, or another --device"
        return told + (hint if self.is_short else "")

    def result(self, peak: int) -> dict[str, int]:
        """As the JSON has it, with the largest peak of all ranks."""
        return {"predicted_bytes": self.predicted, "peak_bytes": peak}


def gigabytes(count: int) -> str:
    """Bytes in words: "16.4 GB"."""
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.0f} MB"


def _highest() -> int:
    """The most that this process ever held. `ru_maxrss` may be that of the process that started this one."""
    stated = _stated("/proc/self/status", r"VmHWM:\s+(\d+)")
    if stated is not None:
        return stated
    try:
        import resource
    except ModuleNotFoundError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if os.uname().sysname == "Darwin" else 1024)


def _stated(path: str, pattern: str, unit: int = 1024) -> int | None:
    """The number that a file of the system's states, in bytes."""
    try:
        found = re.search(pattern, Path(path).read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * unit if found else None
