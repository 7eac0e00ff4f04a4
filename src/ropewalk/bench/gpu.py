"""What is timed on a GPU, by which clock, and beside whose code: the Triton kernel, and people's own kernels."""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from ropewalk._errors import RopewalkError
from ropewalk.bench.jobs import BRAIN, DECODE, FLOAT, MANY, PREFILL, TRAIN, Job
from ropewalk.bench.peers import Way, compiled, complex_multiply, transformers, wide_tables
from ropewalk.kernels import rotate

PEERS = ("triton", "flash-attn", "liger-kernel")
PACKED = (1, 32, 8, 16384, 128)
TARGET = 1 / 0.9  # nine tenths of the bandwidth of a copy
FLUSHED = 2**30  # bytes written before each call, where twice the L2 cache is less: a fraction of a millisecond


def check() -> None:
    """Whether the kernel can be timed here.

    Raises:
        RopewalkError: no CUDA device, or no Triton.
    """
    lacks = "torch sees no CUDA device here" if not torch.cuda.is_available() else None
    if lacks is None and find_spec("triton") is None:
        lacks = "Triton is not installed (torch's builds for CUDA bring it)"
    if lacks is not None:
        raise RopewalkError(f"bench: device='cuda' was asked for, but {lacks}; leave it out to time the CPU")


def described() -> dict[str, Any]:
    """The GPU, and how time is taken on it."""
    clock = "events on the stream, L2 flushed before every call"
    return {"gpu": torch.cuda.get_device_name(), "kernel": "triton", "clock": clock}


def jobs() -> list[Job]:
    """Prefill, training, packed documents with an offset each, and decoding; float32 and bfloat16, both layouts."""
    made = []
    for dtype in (FLOAT, BRAIN):
        for layout in ("half", "interleaved"):
            listed = [("prefill", PREFILL, "bhtd"), ("prefill", PREFILL, "bthd")]
            listed += [(f"train{more}", TRAIN, "bhtd") for more in ("", " with backward")]
            listed += [(f"packed{more}", PACKED, "thd") for more in ("", " with backward")]
            listed += [("decode", DECODE, "bhtd"), ("decode of 32", MANY, "bhtd")]
            made += [Job(name, shape, dtype, layout, axes, TARGET, "cuda") for name, shape, axes in listed]
    return made


class Cold:
    """The clock of a GPU: its own events around one call, after writing more than its L2 cache holds.

    While that is written, Python launches what follows: the GPU's time is measured, and not the wait for Python.
    """

    def __init__(self) -> None:
        size = getattr(torch.cuda.get_device_properties(), "L2_cache_size", 0)
        self.scratch = torch.empty(max(FLUSHED, 2 * size), dtype=torch.int8, device="cuda")

    def __call__(self, way: Callable[[], object]) -> Callable[[], float]:
        """Two calls outside the clock, which compile what there is to compile."""
        way()
        way()
        return partial(self._seconds, way)

    def _seconds(self, way: Callable[[], object]) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.scratch.zero_()
        start.record()
        way()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1000


def ways(job: Job) -> dict[str, Way]:
    """Every way that can do this job on a GPU, by name."""
    cos, sin = job.tables()
    made = {
        name: Way(partial(_rotated, job, (cos, sin), impl), "ropewalk")
        for name, impl in (("ropewalk", "triton"), ("ropewalk, torch's operators", "torch"))
    }
    made |= compiled(job, cos, sin) | _flash_attn(job)
    if job.layout == "interleaved":
        return made | complex_multiply(job, cos, sin)
    if job.axes == "bhtd":
        made |= transformers(job, cos, sin)
    return made if job.axes == "thd" else made | _liger(job, cos, sin)


def _rotated(job: Job, tables: tuple[Tensor, Tensor], impl: str, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    return rotate(q, k, tables, layout=job.layout, axes=job.axes, impl=impl)


def _flash_attn(job: Job) -> dict[str, Way]:
    """Its Triton kernel on q and on k, its tables in their dtype, as its own module keeps them."""
    try:
        from flash_attn.layers.rotary import apply_rotary_emb
    except ImportError:
        return {}
    documents = job.documents()
    last = max(first + length for first, length in documents)
    cos, sin = (table.to(job.device, job.dtype) for table in job.rotary().tables(torch.arange(last)))
    starts = [0, *accumulate(length for _, length in documents)]
    options: dict[str, Any] = {"seqlen_offsets": documents[0][0]}
    if job.axes == "thd":
        offsets, ends = (
            torch.tensor(each, dtype=torch.int32, device=job.device) for each in ([f for f, _ in documents], starts)
        )
        options = {"seqlen_offsets": offsets, "cu_seqlens": ends, "max_seqlen": max(n for _, n in documents)}

    def turn(x: Tensor) -> Tensor:
        x = x.transpose(1, 2) if job.axes == "bhtd" else x
        turned: Tensor = apply_rotary_emb(x, cos, sin, interleaved=job.layout == "interleaved", **options)
        return turned.transpose(1, 2) if job.axes == "bhtd" else turned

    return {"flash-attn": Way(lambda q, k: (turn(q), turn(k)), "flash-attn")}


def _liger(job: Job, cos: Tensor, sin: Tensor) -> dict[str, Way]:
    """Its kernel for the half layout; it writes over what is laid out as it likes (bthd)."""
    try:
        from liger_kernel.transformers.rope import liger_rotary_pos_emb
    except ImportError:
        return {}
    wide = wide_tables(job, cos, sin)

    def turned(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        q, k = liger_rotary_pos_emb(job.by_heads(q), job.by_heads(k), *wide)
        return (q, k) if job.axes == "bhtd" else (q.transpose(1, 2), k.transpose(1, 2))

    return {"liger-kernel": Way(turned, "liger-kernel")}
