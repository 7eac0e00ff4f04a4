"""Timing several ways to do one thing so that their ratios can be believed."""

import ctypes
import time
from collections.abc import Callable, Mapping
from functools import partial

Clock = Callable[[Callable[[], object]], Callable[[], float]]  # of a way: warms it up, and measures it when called

ROUNDS = 21
LEAST = 2e-3  # seconds of a measurement: shorter ones are repeated until they take that long
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt


def warm_allocator() -> bool:
    """Keep freed memory for the next allocation, as a program in its stride has it; whether this C library can.

    Otherwise every fresh output above 128 KiB is new pages from the kernel, which take longer than all else.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, 2**31 - 1) and mallopt(M_TRIM_THRESHOLD, 2**31 - 1))


def repeated(way: Callable[[], object]) -> Callable[[], float]:
    """The clock of the CPU: seconds of a call, of as many as take LEAST together; two are made beforehand."""
    way()
    return partial(_seconds, way, max(1, round(LEAST / max(_seconds(way, 1), 1e-9))))


def interleaved(
    ways: Mapping[str, Callable[[], object]], rounds: int = ROUNDS, clock: Clock = repeated
) -> dict[str, list[float]]:
    """Seconds of each way in each round, taken in turns, A B C A B C: what slows the machine down slows all of them."""
    measured = {name: clock(way) for name, way in ways.items()}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, measure in measured.items():
            seconds[name].append(measure())
    return seconds


def _seconds(way: Callable[[], object], repeats: int) -> float:
    started = time.perf_counter()
    for _ in range(repeats):
        way()
    return (time.perf_counter() - started) / repeats
