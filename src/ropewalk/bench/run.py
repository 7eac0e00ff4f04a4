"""Run the jobs, hold every way to the float64 oracle, and put the ratios together."""

import platform
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ropewalk._checks import one_of
from ropewalk._errors import RopewalkError
from ropewalk.bench import attention, gpu, jobs
from ropewalk.bench.clock import ROUNDS, Clock, interleaved, repeated, warm_allocator
from ropewalk.bench.jobs import Job
from ropewalk.bench.peers import Turn, Way, installed, ways
from ropewalk.bench.ratios import against
from ropewalk.kernels import cpu, rotate
from ropewalk.testing import rotate_complex

LIMIT = "copy"
DEVICES = ("cpu", "cuda")
CPU_PEERS = ("rotary-embedding-torch",)
Timed = Callable[[int], dict[str, Any]]  # rounds -> an entry of the result


def plan(only: str = "", device: str = "cpu") -> list[Timed]:
    """Everything that is timed on a device, or what has `only` in its name.

    Raises:
        RopewalkError: nothing has; another device than "cpu" and "cuda", or one that is not here.
    """
    named: list[tuple[str, Timed]]
    if one_of("bench", "device", device, DEVICES) == "cuda":
        gpu.check()
        clock = gpu.Cold()
        named = [(job.name, partial(entry, job, ways=gpu.ways, clock=clock)) for job in gpu.jobs()]
    else:
        named = [(job.name, partial(entry, job)) for job in jobs.jobs()]
        named += [("tables", tables), ("decode with its tables", decoding_with_tables), *attention.TIMED.items()]
    chosen = [timed for name, timed in named if only in name]
    if not chosen:
        raise RopewalkError(f"bench: no job has {only!r} in its name; they are {', '.join(dict(named))}")
    return chosen


def bench(chosen: Sequence[Timed], threads: int, rounds: int = ROUNDS) -> Iterator[dict[str, Any]]:
    """One entry a job: the seconds of its limit, and every way's ratio to it. Sets torch's number of threads."""
    torch.set_num_threads(threads)
    warm_allocator()
    return (timed(rounds) for timed in chosen)


def machine(threads: int, device: str = "cpu") -> dict[str, Any]:
    """What the ratios were measured on."""
    packages = ["ropewalk", "torch", "transformers", *(gpu.PEERS if device == "cuda" else CPU_PEERS)]
    return {
        "cpu": _processor(),
        "threads": threads,
        "kernel": cpu.missing or "compiled",
        "warm_allocator": warm_allocator(),
        **(gpu.described() if device == "cuda" else {}),
        "versions": {"python": platform.python_version(), **{name: installed(name) for name in packages}},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(": ", 1)[1] for line in lines if line.startswith("model name"))
    except (OSError, StopIteration, IndexError):
        return platform.processor() or platform.machine()


def entry(
    job: Job, rounds: int, *, ways: Callable[[Job], dict[str, Way]] = ways, clock: Clock = repeated
) -> dict[str, Any]:
    """A rotation: every way over copying q and k."""
    q, k = job.inputs()
    torch.compiler.reset()  # so that what is compiled is compiled for this job, and not given up after eight of them
    found = {name: way for name, way in ways(job).items() if job.name != "in place"}
    timed: dict[str, Callable[[], object]] = {LIMIT: _copy(job, q, k)}
    with torch.inference_mode(not job.differentiates):
        errors = {name: _largest_error(job, way.turn, q, k) for name, way in found.items()}
        if job.name == "in place":
            timed["ropewalk"] = partial(rotate, q, k, job.tables(), out=(q, k))
        for name, way in found.items():
            timed[name] = _differentiated(way.turn, q, k) if job.differentiates else partial(way.turn, q, k)
        seconds = interleaved(timed, rounds, clock)
    limit = "two copies" if job.differentiates else "a copy of q and k"
    return {
        **job.describe(),
        **against({name: errors.get(name) for name in timed if name != LIMIT}, seconds, LIMIT, limit),
    }


def _copy(job: Job, q: Tensor, k: Tensor) -> Callable[[], object]:
    to_q, to_k = torch.empty_like(q), torch.empty_like(k)

    def copy() -> None:
        for _ in range(2 if job.differentiates else 1):
            to_q.copy_(q)
            to_k.copy_(k)

    return copy


def _differentiated(turn: Turn, q: Tensor, k: Tensor) -> Callable[[], object]:
    q, k = q.detach().requires_grad_(), k.detach().requires_grad_()
    upstream = torch.randn_like(q), torch.randn_like(k)
    return lambda: torch.autograd.grad(turn(q, k), (q, k), upstream)


def _largest_error(job: Job, turn: Turn, q: Tensor, k: Tensor) -> float:
    """Against the rotation in complex128, the largest over q and k. Some ways write over what they are given."""
    angles = (job.positions()[:, None].double() * job.rotary().inv_freq).to(q.device)
    found = 0.0
    for x, turned in zip((q, k), turn(q.clone(), k.clone()), strict=True):
        for own, mine in zip(job.by_heads(x), job.by_heads(turned), strict=True):
            exact = rotate_complex(own, angles, layout=job.layout)
            found = max(found, float((mine.double() - exact).abs().max()))
    return found


def tables(rounds: int) -> dict[str, Any]:
    """The tables of a whole prompt over a copy of its q and k."""
    job = Job("tables", jobs.PREFILL, torch.float32, "half", "bhtd", 1 / 3)
    return _ours(job, partial(job.rotary().tables, job.positions()), rounds)


def decoding_with_tables(rounds: int) -> dict[str, Any]:
    """A decode step, its tables made in it."""
    job = Job("decode with its tables", jobs.DECODE, torch.float32, "half", "bhtd", 2.5)
    return _ours(job, partial(job.rotary(), *job.inputs(), job.positions()), rounds)


def _ours(job: Job, way: Callable[[], object], rounds: int) -> dict[str, Any]:
    with torch.inference_mode():
        seconds = interleaved({LIMIT: _copy(job, *job.inputs()), "ropewalk": way}, rounds)
    return {**job.describe(), **against({"ropewalk": None}, seconds, LIMIT, "a copy of q and k")}
