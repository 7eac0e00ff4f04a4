"""Pass keys: models whose answers are known on paper, and greedy decoding itself."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ropewalk import RopewalkError
from ropewalk.checkpoints.load import SHIPPED, load
from ropewalk.checkpoints.tokenizer import Tokenizer
from ropewalk.measure import LanguageModel, Retrieval, finds_to, measure_retrieval
from ropewalk.measure.haystack import INTRODUCTION, Answer, Haystack, haystack
from ropewalk.measure.retrieval import DEPTHS, _scores, lengths

BYTES, SURE = 256, 30.0
TEXT = torch.full((3, 20_000), ord("~"))
SAID = re.compile(r"The pass key(?: of (\w+))? is (\d{5})\. Remember it")
ASKED = re.compile(r"The pass key(?: of (\w+))? is (\d{0,4})$")


def encode(text: str) -> Tensor:
    return torch.tensor(list(text.encode()))


def lookup(reach: int, by_name: bool = True) -> LanguageModel:
    """Looks the key up in the last `reach` bytes by regular expression; elsewhere it has no idea, uniformly.

    Not `by_name` it holds every key that it sees and that begins as the answer does for equally likely.
    """

    def hidden(tokens: Tensor, positions: Tensor | None = None) -> Tensor:
        states = torch.zeros(*tokens.shape, BYTES)
        for row, sequence in enumerate(tokens.tolist()):
            text = bytes(sequence).decode()
            for t in range(len(text)):
                asked = ASKED.search(text[max(0, t - 60) : t + 1])
                if not asked or "What" not in text[max(0, t - 75) : t + 1]:
                    continue
                seen = {m[1]: m[2] for m in SAID.finditer(text[max(0, t - reach) : t])}
                keys = [seen[asked[1]]] if by_name and asked[1] in seen else [] if by_name else seen.values()
                for key in keys:
                    if key.startswith(asked[2]):
                        states[row, t, ord(key[len(asked[2])])] = SURE
        return states

    return LanguageModel(hidden, lambda states: states)


@pytest.mark.parametrize("needles", [1, 3, 8])
def test_perfect_retrieval_is_found_at_every_depth(needles):
    cells = measure_retrieval(lookup(10**6), encode, TEXT, 6000, needles=needles, trials=2)
    assert [cell.depth for cell in cells] == pytest.approx([i / 7 for i in range(8)])
    assert all(cell.exact == 1.0 and cell.needles == 2 for cell in cells)
    # A key costs nothing, and its control ln 256 a byte, or as a guess ln 90000.
    assert [cell.gain for cell in cells] == pytest.approx(8 * [np.log(90_000) if needles == 1 else 5 * np.log(256)])
    assert finds_to(cells) == 6000


@pytest.mark.parametrize("needles", [1, 8])
def test_a_window_finds_what_lies_within_it(needles):
    cells = measure_retrieval(lookup(4000), encode, TEXT, 9000, needles=needles)
    found = [cell.exact == 1.0 for cell in cells]
    assert found == sorted(found)
    assert 1 < sum(found) < 7
    assert all((cell.gain > 1) == (cell.exact == 1.0) for cell in cells)
    assert finds_to(cells) == 0


def test_who_knows_every_key_but_no_name_gains_nothing():
    cells = measure_retrieval(lookup(10**6, by_name=False), encode, TEXT, 6000, trials=12)
    assert abs(np.mean([cell.gain for cell in cells])) < 0.5
    assert finds_to(cells) == 0


def test_no_idea_is_no_gain():
    cells = measure_retrieval(lookup(0), encode, TEXT, 6000)
    assert all(cell.gain == pytest.approx(0, abs=1e-6) and cell.exact == 0 for cell in cells)
    alone = measure_retrieval(lookup(0), encode, TEXT, 6000, needles=1)
    assert all(cell.gain < 0 for cell in alone)  # a guess knows that keys are digits; this model does not


@given(length=st.integers(1500, 12_000), needles=st.integers(1, 8), seed=st.integers(0, 2**32))
def test_a_haystack_is_what_it_says(length, needles, seed):
    depths = sorted(np.random.default_rng(seed).random(needles).tolist())
    built = haystack(encode, TEXT[0, :length], depths, np.random.default_rng(seed))
    if built is None:
        assert needles > 1
        return
    text = bytes(built.tokens.tolist()).decode()
    assert len(text) == length
    assert text.startswith(INTRODUCTION)
    assert text.count("~") >= length // 2
    said, room = {m[1]: (m[2], m.start()) for m in SAID.finditer(text)}, text.count("~")
    assert len(said) == (1 if needles == 1 else 2 * needles)
    used = set()
    for answer in built.answers:
        key, name = text[answer.start : answer.end], ASKED.search(text[: answer.start])[1]
        assert (name not in said) == answer.is_control
        used.add(key)
        place = next(where for written, where in said.values() if written == key)
        assert text[:place].count("~") == round(answer.depth * room)
        if not answer.is_control:
            assert said[name][0] == key
    assert len(used) == len(built.answers) == len(said)


def test_one_key_is_the_published_prompt():
    text = bytes(haystack(encode, TEXT[0, :900], [0.5], np.random.default_rng(0)).tokens.tolist()).decode()
    key = SAID.search(text)[2]
    assert f"The pass key is {key}. Remember it. {key} is the pass key." in text
    assert text.endswith(f"What is the pass key? The pass key is {key}.")


def test_keys_differ_between_lengths_but_not_between_runs():
    one, again = (measure_retrieval(lookup(4000), encode, TEXT, 9000) for _ in range(2))
    assert one == again
    seen = []
    for length in (8000, 9000):
        model = lookup(0)
        watched = model._replace(hidden=lambda t, p=None, m=model: seen.append(t[0, -300:]) or m.hidden(t))
        measure_retrieval(watched, encode, TEXT, length)
    assert not torch.equal(*seen)


def test_a_length_too_short_for_the_questions_gives_nothing_and_runs_nothing():
    assert measure_retrieval(LanguageModel(None, None), encode, TEXT, 500) == []


def test_impossible_requests_and_losses():
    with pytest.raises(RopewalkError, match="needles=9; give 1 to 8"):
        measure_retrieval(lookup(0), encode, TEXT, 6000, needles=9)
    broken = LanguageModel(lambda t, p: torch.full((*t.shape, BYTES), torch.nan), lambda s: s)
    with pytest.raises(RopewalkError, match="not a finite number at position"):
        measure_retrieval(broken, encode, TEXT, 6000)


def test_each_quarter_of_the_depth_counts():
    def row(length: int, *gains: float) -> list[Retrieval]:
        return [Retrieval(length, i / 7, gain, 1.0, 1) for i, gain in enumerate(gains)]

    good = row(10, *DEPTHS * [3.0])
    assert finds_to(good) == 10
    assert finds_to(good + row(20, 9, 9, 9, 9, 9, 9, 0, 1)) == 10
    assert finds_to(good + row(20, 0, 2, 2, 0, 0, 2, 2, 0)) == 20
    assert finds_to(row(20, *DEPTHS * [3.0]) + row(10, *DEPTHS * [float("nan")])) == 0
    assert finds_to([]) == 0


@pytest.mark.parametrize(("native", "target"), [(256, 1024), (8192, 16384), (8192, 8200), (1, 2)])
def test_lengths_end_at_the_target_and_hold_the_native_one(native, target):
    found = lengths(native, target)
    assert found == sorted(set(found))
    assert {native, target} <= set(found)
    assert found[0] >= 1
    assert found[-1] == target


def test_exact_is_greedy_decoding():
    """The shipped model copies byte strings: what a loop of argmax writes, beside one teacher-forced pass."""
    checkpoint, rng = load(SHIPPED), np.random.default_rng(0)
    text = Tokenizer.load(SHIPPED).encode((SHIPPED / "heldout-macbeth.txt").read_text())
    stacks = []
    for _ in range(12):
        tokens, string = text[rng.integers(10_000) :][:200].clone(), torch.from_numpy(rng.choice(text.numpy(), 12))
        tokens[40:52] = tokens[180:192] = string
        stacks.append(Haystack(tokens, (Answer(0.0, 188, 191, False), Answer(0.0, 177, 178, False))))
    model = LanguageModel(checkpoint.hidden, checkpoint.head)
    teacher = [score.is_exact for score in _scores(model, stacks)]
    loop = [written(model, stack, answer) for stack in stacks for answer in stack.answers]
    assert teacher == loop
    assert 4 < sum(loop) < len(loop) - 4


def written(model: LanguageModel, stack: Haystack, answer: Answer) -> bool:
    tokens = stack.tokens[: answer.start]
    with torch.inference_mode():
        for _ in range(answer.end - answer.start):
            tokens = torch.cat((tokens, model.head(model.hidden(tokens[None], None))[0, -1:].argmax(-1)))
    return torch.equal(tokens, stack.tokens[: answer.end])
