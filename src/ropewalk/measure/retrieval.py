"""Pass keys hidden in running text, by length and depth: found again, or guessed?"""

import functools
import itertools
import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ropewalk._errors import RopewalkError
from ropewalk.measure.documents import batches
from ropewalk.measure.haystack import FIRST, LAST, Answer, Encode, Haystack, haystack
from ropewalk.measure.losses import TOKENS_AT_ONCE, LanguageModel, Pass

DEPTHS = 8
QUARTERS = 4
GAIN = 1.0  # nats a key: the right one is e = 2.7 times likelier than the control
GUESS = math.log(LAST - FIRST + 1)  # nats a key, for who does not see it


@dataclass(frozen=True)
class Retrieval:
    """What was seen of the keys at one depth in texts of one length.

    Attributes:
        length: tokens in the whole sequence, questions included.
        depth: 0 is the beginning of the text, 1 its end.
        gain: the control's loss minus that of the keys asked for, nats a key: not a token, since a key once begun is
            copied whether or not it is the right one, and its first token carries the choice.
        exact: share of the keys that greedy decoding would give, digit for digit.
        needles: how many keys were asked for.
    """

    length: int
    depth: float
    gain: float
    exact: float
    needles: int


def lengths(native: int, target: int) -> list[int]:
    """Half the native length, all of it, half the way on to the target, and the target."""
    return sorted({max(1, native // 2), native, (native + target) // 2, target})


def texts(needles: int) -> int:
    """How many it takes to have a key at each depth."""
    return -(-DEPTHS // needles)


def measure_retrieval(
    model: LanguageModel,
    encode: Encode,
    documents: Tensor,
    length: int,
    *,
    needles: int = DEPTHS,
    trials: int = 1,
    seed: int = 0,
) -> list[Retrieval]:
    """Gain and exact answers at `DEPTHS` depths, teacher-forced: one pass scores every key of a text.

    A key is found exactly where each of its tokens is the likeliest after those before it, which is what greedy
    decoding would write. With several keys in a text, the control is the key beside the one asked for, as the answer to
    a question about a name that does not occur. With one key, the published passkey prompt, it is a guess, ln 90000
    a key: no model does better on average that does not see the key.

    Args:
        model: hidden states and output layer.
        encode: text to token ids, without special tokens.
        documents: [N, at least length], the text around the keys.
        length: of the sequences, in tokens.
        needles: keys asked for in one text, 1 to 8; there are as many texts as it takes to have one at each depth.
        trials: keys asked for at each depth.

    Returns:
        One a depth; none where so short a sequence would be more questions than text.

    Raises:
        RopewalkError: needles out of range, a loss that is not finite.
    """
    if not 1 <= needles <= DEPTHS:
        raise RopewalkError(f"measure_retrieval: needles={needles}; give 1 to {DEPTHS} keys a text")
    rng, depths = np.random.default_rng((seed, length)), np.linspace(0, 1, DEPTHS)
    count = texts(needles)
    stacks: list[Haystack] = []
    for trial, first in itertools.product(range(trials), range(count)):
        text = documents[(trial * count + first) % len(documents), :length]
        built = haystack(encode, text, depths[first::count].tolist(), rng)
        if built is None:
            return []
        stacks.append(built)
    scored = _scores(model, stacks)
    return [_cell(length, depth, scored) for depth in depths.tolist()]


def finds_to(cells: list[Retrieval]) -> int:
    """The longest length up to which, at every measured one, each quarter of the depth gains at least 1 nat a key.

    0 where the first fails: half of a text that is read well does not make up for the other half.
    """
    reached, by_length = 0, defaultdict(list)
    for cell in cells:
        by_length[cell.length].append(cell)
    for length, row in sorted(by_length.items()):
        quarters: dict[int, list[float]] = defaultdict(list)
        for cell in row:
            quarters[min(int(QUARTERS * cell.depth), QUARTERS - 1)].append(cell.gain)
        if not all(np.mean(gains) >= GAIN for gains in quarters.values()):  # worded so that a NaN fails
            break
        reached = length
    return reached


@dataclass(frozen=True)
class _Score:
    """One answer: its loss, nats a key, and whether greedy decoding gives it."""

    answer: Answer
    loss: float
    is_exact: bool


def _scores(model: LanguageModel, stacks: list[Haystack]) -> list[_Score]:
    """Every answer of every text."""
    tokens, passes = torch.stack([stack.tokens for stack in stacks]), []
    for rows in batches(len(tokens), tokens.shape[1], TOKENS_AT_ONCE):
        passes.append(Pass(tokens[rows], None, functools.partial(_answered, model, stacks[rows], tokens[rows])))
    answers = [answer for stack in stacks for answer in stack.answers]
    found = torch.cat(model.around(passes)).tolist()
    return [_Score(answer, loss, bool(exact)) for answer, (loss, exact) in zip(answers, found, strict=True)]


def _answered(model: LanguageModel, stacks: list[Haystack], tokens: Tensor) -> Tensor:
    """The loss of each answer and whether it is exact, 0 or 1, [answers, 2]; logits exist for the answers alone."""
    with torch.inference_mode():
        states = model.hidden(tokens, None)
        return torch.tensor(
            [_answer(model, states[row], stack, a) for row, stack in enumerate(stacks) for a in stack.answers]
        )


def _answer(model: LanguageModel, states: Tensor, stack: Haystack, answer: Answer) -> tuple[float, float]:
    logits = model.head(states[answer.start - 1 : answer.end - 1]).float().cpu()
    wanted = stack.tokens[answer.start : answer.end]
    loss = cross_entropy(logits, wanted, reduction="sum").item()
    if not math.isfinite(loss):
        raise RopewalkError(
            f"the model's loss is not a finite number at position {answer.start} of {len(stack.tokens)}; its weights "
            "are damaged, or its precision does not carry so far"
        )
    return loss, float((logits.argmax(-1) == wanted).all())


def _cell(length: int, depth: float, scores: list[_Score]) -> Retrieval:
    here = [score for score in scores if score.answer.depth == depth]
    asked = [score for score in here if not score.answer.is_control]
    control = [score.loss for score in here if score.answer.is_control] or [GUESS]
    gain = float(np.mean(control) - np.mean([score.loss for score in asked]))
    return Retrieval(length, depth, gain, float(np.mean([score.is_exact for score in asked])), len(asked))
