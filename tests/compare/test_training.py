"""What all encodings share, and what a seed decides."""

import math

import pytest
import torch

from ropewalk import ALiBi, RopewalkError, Rotary
from ropewalk.compare.contestants import CONTESTANTS, contestant
from ropewalk.compare.protocol import Protocol
from ropewalk.compare.scalings import rescaled
from ropewalk.compare.scoring import (
    as_language_model,
    copy_accuracy,
    copy_distances,
    edges,
    pair_norms,
    score,
    used_frequencies,
)
from ropewalk.compare.training import batch, train, untrained
from ropewalk.measure.losses import token_losses
from ropewalk.scaling import Linear

SMALL = Protocol(length=16, reach=4, dim=16, heads=2, batch=4, steps=3, stretches=4)
TEXT = torch.randint(97, 123, (4000,), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", CONTESTANTS)
def test_a_seed_decides_everything(name):
    one, same, other = (train(contestant(name), SMALL, TEXT, seed).model.state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert any(not torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("name", CONTESTANTS)
def test_all_start_alike_but_for_the_encoding(name):
    plain, own = (untrained(contestant(one), SMALL, 5).state_dict() for one in ("none", name))
    assert all(torch.equal(plain[key], own[key]) for key in plain)


def test_rows_of_repeats_come_first_and_the_rest_is_text():
    protocol, windows = Protocol(length=64, batch=8, copies=0.25), TEXT.unfold(0, 65, 1)
    rows = batch(TEXT, TEXT.unique(), protocol, torch.Generator().manual_seed(1))
    assert rows.shape == (8, 65)
    periods = [next(p for p in range(2, 65) if torch.equal(row[p:], row[:-p])) for row in rows[:2]]
    assert len(periods) == 2
    many = batch(TEXT, TEXT.unique(), Protocol(batch=400, copies=0.5), torch.Generator().manual_seed(2))[:200]
    longest = [next(p for p in range(2, 65) if torch.equal(row[p:], row[:-p])) for row in many]
    assert 24 < max(longest) <= 32  # each string is said twice at the least
    assert all((windows == row).all(1).any() for row in rows[2:])
    assert not any((windows == row).all(1).any() for row in rows[:2])


def test_a_model_is_scored_as_the_measure_room_scores_it():
    """Bits of the last quarter, computed a second way: token by token from the logits."""
    model = train(contestant("rope"), SMALL, TEXT, 0).model
    found = score(model, SMALL, TEXT[:256])
    stretches = TEXT[:256].view(4, 64)
    with torch.no_grad():
        logits = model(stretches).log_softmax(-1)
    bits = -logits[:, :-1].gather(-1, stretches[:, 1:, None])[..., 0] / math.log(2)  # column t is token t + 1
    expected = {32: bits[:, 23:31].mean(), 64: bits[:, 47:63].mean()}
    documents = {entry["length"]: entry for entry in found["bits"]}
    for length, value in expected.items():
        assert documents[length]["last_quarter"] == pytest.approx(float(value), abs=1e-5)
    losses = token_losses(as_language_model(model), stretches)
    assert torch.allclose(losses[:, 1:] / math.log(2), bits, atol=1e-5)
    assert documents[16]["crop"] == pytest.approx(documents[16]["last_quarter"], abs=1e-5)


class Copier(torch.nn.Module):
    """Says the byte that stood `period` back."""

    def __init__(self, period: int) -> None:
        super().__init__()
        self.period = period

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        said = tokens.roll(self.period - 1, 1)
        return torch.nn.functional.one_hot(said, 256).float()


def test_a_head_that_looks_a_fixed_number_of_bytes_back_is_no_copier():
    """24 back is right for strings of 6, 8, 12 and 24 bytes, and for no prime number of them."""
    protocol = Protocol()
    assert copy_accuracy(Copier(24), protocol, 8, TEXT) == 1
    assert copy_distances(protocol) == [7, 13, 31, 61, 127, 251, 509]
    assert max(copy_accuracy(Copier(24), protocol, distance, TEXT) for distance in copy_distances(protocol)) < 0.2


def test_copying_is_what_a_copier_does():
    protocol = Protocol(length=32, reach=4)
    for distance in (8, 16, 64):
        assert copy_accuracy(Copier(distance), protocol, distance, TEXT) == 1
        assert copy_accuracy(Copier(distance + 1), protocol, distance, TEXT) < 0.2


def test_a_scaling_acts_on_the_same_weights():
    model = untrained(contestant("rope"), SMALL, 0).eval()
    tokens = TEXT[None, :32]
    with torch.no_grad():
        plain, none, linear = model(tokens), *(rescaled(model, SMALL, s)(tokens) for s in (None, Linear(2.0)))
        squeezed = model(tokens[:, ::1], torch.arange(32))
    assert torch.equal(plain, none)
    assert torch.equal(plain, squeezed)
    assert not torch.allclose(plain, linear, atol=1e-6)


def test_pairs_are_the_half_layouts():
    x = torch.zeros(1, 1, 8)  # two heads of two pairs: features 0 and 2 of a head are its first
    x[0, 0, [0, 2]], x[0, 0, [4, 6]] = torch.tensor([3.0, 4.0]), torch.tensor([6.0, 8.0])
    assert pair_norms(x, 4).tolist() == [7.5, 0.0]
    shares = used_frequencies(untrained(contestant("rope"), SMALL, 0), SMALL, TEXT[:512])
    assert len(shares) == 2
    assert sum(shares[0]["share"]) == pytest.approx(1)
    assert used_frequencies(untrained(contestant("alibi"), SMALL, 0), SMALL, TEXT[:512]) == []


def test_buckets_end_at_every_length_that_is_reported():
    protocol = Protocol()
    borders = set(edges(protocol, protocol.longest))
    assert {length for length in protocol.lengths.values()} <= borders
    assert list(protocol.lengths) == [1, 1.5, 2, 4, 8, 16]


def test_an_encoding_of_ones_own_gets_what_it_asks_for():
    assert isinstance(contestant("ropewalk:ALiBi").build(SMALL), ALiBi)
    rotary = contestant("ropewalk:Rotary").build(SMALL)
    assert isinstance(rotary, Rotary)
    assert rotary.head_dim == 8


@pytest.mark.parametrize(
    ("name", "message"),
    [("ropes", "known are none"), ("ropewalk:attend", "no subclass"), ("nowhere:X", "cannot be imported"),
     ("ropewalk:Nothing", "cannot be imported"), (":X", "cannot be imported")],
)  # fmt: skip
def test_what_is_no_encoding_is_refused(name, message):
    with pytest.raises(RopewalkError, match=message):
        contestant(name)


def test_a_class_that_asks_for_more_is_refused():
    with pytest.raises(RopewalkError, match="takes more than dim, heads"):
        contestant("ropewalk:Shaw").build(SMALL)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"heads": 3}, "do not divide"), ({"copies": 1.0}, "copies"), ({"length": 8}, "length"), ({"steps": 0}, "steps"),
     ({"rate": 0.0}, "rate"), ({"dim": 12}, "do not divide")],
)  # fmt: skip
def test_sizes_that_no_model_has_are_refused(change, message):
    with pytest.raises(RopewalkError, match=message):
        Protocol(**change)
