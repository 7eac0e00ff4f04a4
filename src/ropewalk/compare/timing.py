"""How fast each encoding trains: one after the other in turns, when nothing else runs."""

import time
from collections.abc import Sequence

import torch
from torch import Tensor

from ropewalk.compare.contestants import contestant
from ropewalk.compare.protocol import Protocol
from ropewalk.compare.training import Training

ROUNDS, STEPS = 12, 10  # turns of each encoding, steps in a turn


def tokens_per_second(names: Sequence[str], protocol: Protocol, text: Tensor) -> dict[str, list[float]]:
    """Tokens a second of each turn, one thread: A B C A B C, so that a machine that slows down slows all alike.

    The first turn of each warms up and is left out.
    """
    torch.set_num_threads(1)
    trainings = {name: Training(contestant(name), protocol, text, seed=0) for name in names}
    turns = [{name: _turn(training) for name, training in trainings.items()} for _ in range(ROUNDS + 1)]
    tokens = STEPS * protocol.batch * protocol.length
    return {name: [tokens / turn[name] for turn in turns[1:]] for name in names}


def _turn(training: Training) -> float:
    started = time.perf_counter()
    for _ in range(STEPS):
        training.step()
    return time.perf_counter() - started
