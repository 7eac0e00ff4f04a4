"""The time left: in work that an independent counter agrees with, at the speed of what was computed."""

from pathlib import Path

import pytest
import torch
from conftest import TINY
from models import recent
from torch.utils.flop_counter import FlopCounterMode

from ropewalk import from_config
from ropewalk.checkpoints.load import load
from ropewalk.extend import scaling_for
from ropewalk.extend.kept import Kept
from ropewalk.extend.measuring import measure
from ropewalk.extend.passes import Passes
from ropewalk.extend.plan import Plan
from ropewalk.extend.progress import Cost, Meter, expected
from ropewalk.measure import Documents, LanguageModel, token_losses
from ropewalk.measure.losses import Pass

TOKENS = torch.randint(0, 64, (3, 128), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("length", [16, 48])
def test_the_work_is_what_torch_counts(tiny, length):
    """Its counter has every pair of tokens, and a causal model needs half of them."""
    checkpoint, tokens = load(tiny), torch.zeros(1, length, dtype=torch.int64)
    checkpoint.model.set_attn_implementation("eager")  # the counter does not know the CPU's fused attention
    with FlopCounterMode(display=False) as counter:
        checkpoint.head(checkpoint.hidden(tokens))
    cost = Cost.of(TINY)
    assert counter.get_total_flops() == 2 * (cost.token * length + cost.pair * length**2)
    assert cost.of_pass(3, length) == 3 * (cost.token * length + cost.pair * length * (length + 1) / 2)


def plan(*methods, trials=0):
    scalings = {name: scaling_for(name, 2.0, 64) for name in methods}
    return Plan(Path("m"), (), from_config(TINY), 128, scalings, trials=trials)


def test_the_expected_work_is_the_work_that_is_done(tiny):
    """By full passes of a static method and one that depends on the length, in a model that says what it was given."""
    seen, planned, cost = [], plan("yarn", "dynamic"), Cost.of(TINY)
    checkpoint = load(tiny)

    class Noting:
        spec, model, head = checkpoint.spec, checkpoint.model, checkpoint.head

        def hidden(self, tokens, positions=None):
            seen.append(tokens.shape)
            return checkpoint.hidden(tokens, positions)

    measure(planned, Documents(TOKENS, ("a", "b", "c")), Noting())
    work = expected(planned, 3, cost)
    assert list(work) == ["crop", "none", "yarn", "dynamic"]
    assert sum(work.values()) == pytest.approx(sum(cost.of_pass(*shape) for shape in seen))
    reading = expected(plan(trials=5), 3, cost)["none"] - work["none"]
    assert reading == pytest.approx(sum(cost.of_pass(5, n) for n in (64, 80, 96, 112, 128)))


def test_the_time_left_is_that_of_the_work_left():
    meter = Meter({"none": 100.0, "yarn": 300.0})
    assert (meter.step("none", "").share, meter.step("none", "").seconds_left) == (0.0, None)
    meter.computed(work=50, tokens=10, seconds=5.0)
    meter.passed("none", 50)
    step = meter.step("none", "")
    assert (step.share, step.seconds_left, step.tokens_per_second) == (1 / 8, 35.0, 2.0)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def run(kept, monkeypatch, rows=3, seconds=10.0):
    """Passes over rows of a model that takes so long, and the steps that were told."""
    clock, steps = Clock(), []
    monkeypatch.setattr("ropewalk.extend.passes.time.monotonic", clock)
    passes, model = Passes(kept, steps.append), recent(5)

    def hidden(tokens, positions=None):
        clock.now += seconds
        return model.hidden(tokens)

    cost = Cost(1.0, 0.0)
    passes.expect(cost, {"yarn": cost.of_pass(4, 128), "ntk": cost.of_pass(2, 128)})
    with passes.of_method("yarn"):
        passes.over("document", 3)
        for row in range(rows):
            token_losses(LanguageModel(hidden, model.head, passes), TOKENS[row : row + 1])
    return passes, steps


def test_passes_taken_over_count_as_work_and_not_as_speed(tmp_path, monkeypatch):
    kept = Kept(tmp_path)
    run(kept, monkeypatch, rows=2, seconds=1000.0)
    passes, steps = run(kept, monkeypatch)
    assert passes.taken_over == 2000.0
    assert [step.part for step in steps[::2]] == ["document 1 of 3", "document 2 of 3", "document 3 of 3"]
    assert [step.seconds_left for step in steps] == [None] * 5 + [pytest.approx(30.0)]  # three of six rows, 10 s each
    assert steps[-1].share == pytest.approx(0.5)
    assert steps[-1].tokens_per_second == pytest.approx(12.8)


def test_rows_that_pass_together_are_named_together(monkeypatch):
    steps = []
    passes = Passes(None, steps.append)
    passes.over("sequence", 3, "copies at 8,192, ")
    for rows in (2, 1):
        token_losses(recent(5)._replace(around=passes), TOKENS[:rows])
    assert [step.part for step in steps[::2]] == [
        "copies at 8,192, sequences 1-2 of 3",
        "copies at 8,192, sequence 3 of 3",
    ]


def test_work_that_a_method_did_not_need_is_none_left(monkeypatch):
    passes, _ = run(None, monkeypatch)
    with passes.of_method("ntk"):
        pass
    assert passes._meter.step("ntk", "").share == 1.0


def test_other_frequencies_positions_and_tokens_are_other_passes(tmp_path):
    from ropewalk.scaling import Scaled

    passes, results = Passes(Kept(tmp_path)), iter(range(100))

    def ask(tokens, positions=None):
        return passes([Pass(tokens, positions, lambda: torch.tensor(float(next(results))))])[0].item()

    row, places = TOKENS[:1], torch.arange(128)[None]
    frequencies = Scaled(torch.ones(4), 1.0), Scaled(torch.ones(4), 1.1), Scaled(torch.ones(4) * 2, 1.0)

    def all_of_them():
        found = [
            ask(row),
            ask(TOKENS[1:2]),
            ask(TOKENS[:2]),
            ask(row.reshape(2, 64)),
            ask(row, places),
            ask(row, places + 1),
        ]
        for one in frequencies:
            with passes.under(one):
                found.append(ask(row))
        for names in ("self-extend, 2", "self-extend, 3"):  # other positions at the same frequencies
            with passes.under(frequencies[0], names):
                found.append(ask(row))
        return found

    assert all_of_them() == list(range(11))
    assert all_of_them() == list(range(11))
