"""Running text with pass keys hidden in it, and the questions about them at its end."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

Encode = Callable[[str], Tensor]  # text -> token ids [T], without special tokens

# The passkey prompt that Landmark Attention, PI, YaRN and LongRoPE share, word for word.
INTRODUCTION = (
    "There is an important info hidden inside a lot of irrelevant text. Find it and memorize them. "
    "I will quiz you about the important information there."
)
NEEDLE = "The pass key{of} is {key}. Remember it. {key} is the pass key{of}."
QUESTION = "What is the pass key{of}? The pass key{of} is"
NAMES = (
    *("Accra", "Bogota", "Cairo", "Dakar", "Delhi", "Dublin", "Hanoi", "Havana", "Jakarta", "Kabul", "Lima", "Manila"),
    *("Minsk", "Nairobi", "Oslo", "Ottawa", "Perth", "Quito", "Rabat", "Riga", "Seoul", "Sofia", "Tokyo", "Tunis"),
)
FIRST, LAST = 10_000, 99_999  # five digits; the codes of YaRN and LongRoPE draw one to five
OTHER_DIGITS = str.maketrans("0123456789", "5678901234")


@dataclass(frozen=True)
class Answer:
    """A key at the end of a question.

    Attributes:
        depth: where in the text the key is hidden, 0 its beginning and 1 its end.
        start, end: its tokens.
        is_control: whether the question names something that the text says nothing about.
    """

    depth: float
    start: int
    end: int
    is_control: bool


@dataclass(frozen=True)
class Haystack:
    """A sequence of one exact length: introduction, text with keys in it, questions with their answers.

    Attributes:
        tokens: int64 [T].
    """

    tokens: Tensor
    answers: tuple[Answer, ...]


def haystack(encode: Encode, text: Tensor, depths: Sequence[float], rng: np.random.Generator) -> Haystack | None:
    """As many tokens as `text` has, a part of which gives way to keys at `depths` and to the questions.

    One depth makes the passkey prompt as it was published, with one key and one question. With more of them each
    key has a name, and at each depth stand two keys. One of them is asked for by its name; the other one answers a
    question about a name that occurs nowhere, the control: who sees both keys and does not read the names finds
    one answer as likely as the other. No key stands in two answers.

    Args:
        depths: at most a third of `NAMES`.

    Returns:
        None where less than half of the tokens would be text.
    """
    needles, questions = _passkey(depths[0], rng) if len(depths) == 1 else _named(depths, rng)
    head, planted = encode(INTRODUCTION + "\n"), [(depth, encode(f"\n{said}\n")) for depth, said in needles]
    asked = [_asked(encode, question, key) for _, _, question, key in questions]
    fixed = len(head) + sum(len(needle) for _, needle in planted) + sum(len(tokens) for tokens, _, _ in asked)
    room, at, pieces = len(text) - fixed, 0, [head]
    if room < len(text) // 2:
        return None
    for depth, needle in planted:
        pieces += [text[at : round(depth * room)], needle]
        at = round(depth * room)
    pieces.append(text[at:room])
    answers, end = [], sum(map(len, pieces))
    for (depth, is_control, _, _), (tokens, first, last) in zip(questions, asked, strict=True):
        answers.append(Answer(depth, end + first, end + last, is_control))
        pieces.append(tokens)
        end += len(tokens)
    return Haystack(torch.cat(pieces), tuple(answers))


Needles = list[tuple[float, str]]  # depth, what is said
Questions = list[tuple[float, bool, str, str]]  # depth, whether it is a control, question, key


def _passkey(depth: float, rng: np.random.Generator) -> tuple[Needles, Questions]:
    key = str(rng.integers(FIRST, LAST + 1))
    return [(depth, NEEDLE.format(of="", key=key))], [(depth, False, QUESTION.format(of=""), key)]


def _named(depths: Sequence[float], rng: np.random.Generator) -> tuple[Needles, Questions]:
    """Two keys a depth, in either order, and two questions a depth, all shuffled."""
    keys = rng.choice(np.arange(FIRST, LAST + 1), (len(depths), 2), replace=False)
    names = rng.permutation(NAMES)[: 3 * len(depths)].reshape(len(depths), 3)
    needles: Needles = []
    questions: Questions = []
    for depth, (key, other_key), (name, other_name, absent) in zip(sorted(depths), keys, names, strict=True):
        pair = [(name, key), (other_name, other_key)]
        needles += [
            (depth, NEEDLE.format(of=f" of {n}", key=k)) for n, k in (pair if rng.random() < 0.5 else pair[::-1])
        ]
        questions.append((depth, False, QUESTION.format(of=f" of {name}"), str(key)))
        questions.append((depth, True, QUESTION.format(of=f" of {absent}"), str(other_key)))
    return needles, [questions[i] for i in rng.permutation(len(questions))]


def _asked(encode: Encode, question: str, key: str) -> tuple[Tensor, int, int]:
    """A question with its answer, and the answer's tokens: from the first that depends on the key on."""
    tokens, alone = encode(f"\n{question} {key}."), encode(f"\n{question} {key}")
    other = encode(f"\n{question} {key.translate(OTHER_DIGITS)}.")
    return tokens, _shared(tokens, other), _shared(tokens, alone)


def _shared(one: Tensor, other: Tensor) -> int:
    """How many tokens both begin with."""
    length = min(len(one), len(other))
    differ = (one[:length] != other[:length]).nonzero()
    return int(differ[0]) if len(differ) else length
