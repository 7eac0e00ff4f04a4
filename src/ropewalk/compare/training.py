"""One run: an encoding, a seed, and the budget that all share."""

import math
import resource
import sys
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ropewalk.compare.contestants import Contestant
from ropewalk.compare.protocol import Protocol
from ropewalk.models import Decoder

WARM_UP, DECAY, LAST = 100, 0.01, 0.05  # steps; weight decay; the last rate as a share of the peak
VOCAB = 256


class Trained(NamedTuple):
    """A model after its budget, and the memory that it took."""

    model: Decoder
    peak_memory_mb: float


class Training:
    """A model on its way through the budget: random windows of text and rows of repeats, by the seed alone."""

    def __init__(self, contestant: Contestant, protocol: Protocol, text: Tensor, seed: int) -> None:
        self.model = untrained(contestant, protocol, seed)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=protocol.rate, betas=(0.9, 0.98), weight_decay=DECAY
        )
        self.protocol, self.text, self.letters = protocol, text, text.unique()
        self.random, self.steps = torch.Generator().manual_seed(seed), 0

    def step(self) -> None:
        """One step of the optimizer."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.protocol.rate * _schedule(self.steps, self.protocol.steps)
        rows = batch(self.text, self.letters, self.protocol, self.random)
        loss = cross_entropy(self.model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.steps += 1


def untrained(contestant: Contestant, protocol: Protocol, seed: int) -> Decoder:
    """The decoder as it starts: of one seed, all but the encoding's own parameters are alike."""
    torch.manual_seed(seed)
    encoding = contestant.build(protocol)
    window = None if contestant.window is None else round(contestant.window * protocol.length)
    torch.manual_seed(seed)
    model = Decoder(VOCAB, protocol.dim, layers=protocol.layers, heads=protocol.heads, encoding=encoding, window=window)
    # Vaswani et al. scale tokens by sqrt(dim) before positions are added: of one size with them, neither drowns
    torch.nn.init.normal_(model.embedding.weight, std=1.0)
    return model


def train(contestant: Contestant, protocol: Protocol, text: Tensor, seed: int) -> Trained:
    """Train for the whole budget."""
    before = _peak_mb()
    training = Training(contestant, protocol, text, seed)
    for _ in range(protocol.steps):
        training.step()
    return Trained(training.model.eval(), _peak_mb() - before)


def batch(text: Tensor, letters: Tensor, protocol: Protocol, random: torch.Generator) -> Tensor:
    """[batch, length + 1]: windows of text, and first the rows of repeated `letters`."""
    starts = torch.randint(0, len(text) - protocol.length, (protocol.batch,), generator=random)
    rows = text[starts[:, None] + torch.arange(protocol.length + 1)]
    for row in range(round(protocol.copies * protocol.batch)):
        rows[row] = _repeats(letters, protocol.length + 1, random)
    return rows


def _repeats(letters: Tensor, length: int, random: torch.Generator) -> Tensor:
    """A random string, said over and over; each doubling of its length, up to half the row, is as likely."""
    longest = math.log2((length - 1) / 2)
    period = int(2 ** (1 + (longest - 1) * torch.rand((), generator=random).item()))
    string = letters[torch.randint(0, len(letters), (period,), generator=random)]
    return string.repeat(-(-length // period))[:length]


def _schedule(step: int, steps: int) -> float:
    return min(1.0, (step + 1) / WARM_UP) * (LAST + (1 - LAST) * 0.5 * (1 + math.cos(math.pi * step / steps)))


def _peak_mb() -> float:
    """The largest size that this process has had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
