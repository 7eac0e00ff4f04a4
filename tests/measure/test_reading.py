import pytest
import torch
from models import VOCABULARY, copier, recent

from ropewalk.measure.reading import SHORTEST, Reading, contexts, measure_reading, reads_to

TEXT = torch.randint(0, VOCABULARY, (6, 1024), generator=torch.Generator().manual_seed(0))


def readings(model) -> list[Reading]:
    return [measure_reading(model, TEXT, context, trials=6) for context in contexts(256, 1024)]


def test_a_perfect_copier_reads_to_the_end():
    found = readings(copier(reach=10_000))
    assert reads_to(found) == found[-1].distance == 1024 - 2 * 2 * 16
    assert all(reading.gain > 3 for reading in found)  # ln 64 = 4.2 and more for a wrong guess, against nearly 0


def test_a_copier_of_limited_reach_reads_so_far():
    reached = reads_to(readings(copier(reach=300)))
    assert 200 < reached <= 300


def test_a_model_that_only_looks_at_the_last_tokens_does_not_read():
    assert reads_to(readings(copier(reach=12))) == 0
    assert reads_to(readings(recent(5))) == 0


def test_one_failure_ends_it():
    gains = [4.0, 2.0, 0.9, 4.0]
    found = [Reading(distance, distance, gain, 1) for distance, gain in zip((10, 20, 30, 40), gains, strict=True)]
    assert reads_to(found) == 20
    assert reads_to([Reading(10, 10, float("nan"), 1)]) == 0


@pytest.mark.parametrize(("native", "target"), [(256, 1024), (8192, 16384), (64, 100), (7, 90)])
def test_contexts_end_at_the_target_and_start_within_native(native, target):
    found = contexts(native, target)
    assert found == sorted(set(found))
    assert found[-1] == target
    assert SHORTEST <= found[0] <= max(native, SHORTEST)


def test_nothing_is_measured_where_no_string_fits():
    assert contexts(16, 32) == []


def test_strings_differ_between_trials_but_not_between_runs():
    seen = []

    def hidden(tokens, positions=None):
        seen.append(tokens)
        return recent(5).hidden(tokens)

    model = recent(5)._replace(hidden=hidden)
    for _ in range(2):
        measure_reading(model, TEXT, 256, trials=2)
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0][0, -32:], seen[0][1, -32:])
