"""The seeds of the field, as laws."""

import pytest
import torch
from every_encoding import ENCODINGS, HEADS, SHIFTED, WIDTH, answers, attended, built, sample
from hypothesis import given
from hypothesis import strategies as st

from ropewalk import ALiBi, Learned, RopewalkError, Rotary, attend, positions
from ropewalk.functional import sinusoidal, sinusoidal_shift
from ropewalk.functional.alibi import RULES
from ropewalk.functional.sinusoidal import GRIDS, ORDERS

DOUBLE = {"rtol": 0, "atol": 1e-12}


@given(order=st.permutations(range(7)))
def test_attention_without_positions_follows_a_permutation(order):
    q, k, v = (sample(2, 4, 7, 8, seed=seed, dtype=torch.float64) for seed in range(3))
    shuffled = attend(q[:, :, order], k[:, :, order], v[:, :, order], causal=False)
    torch.testing.assert_close(shuffled, attend(q, k, v, causal=False)[:, :, order], **DOUBLE)


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_causal_mask_or_an_encoding_breaks_that(name):
    encoding, x = built(name), sample(1, 7, 64)
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])  # not the reversal, which a symmetric bias follows
    causal = name == "nope"
    shuffled = attended(encoding, x[:, order], causal=causal)
    assert (shuffled - attended(encoding, x, causal=causal)[:, :, order]).abs().max() > 1e-2


@given(
    offset=st.integers(-1000, 1000),
    pairs=st.integers(1, 40),
    order=st.sampled_from(ORDERS),
    grid=st.sampled_from(GRIDS),
)
def test_a_sinusoid_moved_is_linear_in_the_sinusoid(offset, pairs, order, grid):
    where = positions.arange(5, offset=1000)
    shift = sinusoidal_shift(offset, 2 * pairs, order=order, grid=grid)
    here, there = (sinusoidal(p, 2 * pairs, order=order, grid=grid).double() for p in (where, where + offset))
    torch.testing.assert_close(here @ shift.T, there, rtol=0, atol=3e-7)
    torch.testing.assert_close(shift @ shift.T, torch.eye(2 * pairs).double(), **DOUBLE)


@given(
    position=st.integers(0, 16_000_000),
    dim=st.integers(1, 80),
    order=st.sampled_from(ORDERS),
    grid=st.sampled_from(GRIDS),
)
def test_sinusoids_stay_within_one(position, dim, order, grid):
    table = sinusoidal(torch.tensor([position]), dim, order=order, grid=grid)
    assert table.shape == (1, dim)
    assert table.abs().max() <= 1


@given(a=st.integers(0, 8_000_000), b=st.integers(0, 8_000_000), layout=st.sampled_from(["half", "interleaved"]))
def test_rotations_add(a, b, layout):
    rope, q = Rotary(64, layout=layout), sample(1, 1, 1, 64, dtype=torch.float64)
    once, _ = rope(q, q, torch.tensor([a]))
    twice, _ = rope(once, once, torch.tensor([b]))
    torch.testing.assert_close(twice, rope(q, q, torch.tensor([a + b]))[0], rtol=0, atol=1e-6)


@given(m=st.integers(0, 10_000), n=st.integers(0, 10_000), by=st.integers(0, 100_000))
def test_scores_of_two_places_depend_on_their_distance(m, n, by):
    rope, q, k = Rotary(64), sample(1, 1, 1, 64, dtype=torch.float64), sample(1, 1, 1, 64, seed=1, dtype=torch.float64)

    def score(moved: int) -> float:
        turned = rope(q, k, q_positions=torch.tensor([m + moved]), k_positions=torch.tensor([n + moved]))
        return (turned[0] * turned[1]).sum().item()

    assert score(by) == pytest.approx(score(0), abs=2e-5)


@pytest.mark.parametrize("rule", RULES)
@given(heads=st.integers(1, 70), distance=st.integers(0, 5000), by=st.integers(1, 5000))
def test_alibi_is_linear_in_distance(rule, heads, distance, by):
    bias = ALiBi(heads, rule=rule).bias(torch.tensor([20_000]), 20_000 - torch.tensor([0, distance, by, distance + by]))
    zero, one, other, both = bias[:, 0].double().unbind(-1)
    torch.testing.assert_close(one + other, both, rtol=1e-6, atol=0)
    assert (zero == 0).all()
    assert (other < 0).all()


@given(
    name=st.sampled_from([n for n in ENCODINGS if n in SHIFTED and not n.startswith(("nope", "rotary", "xpos"))]),
    by=st.integers(0, 2**40),
)
def test_biases_and_relations_see_the_distance_alone(name, by):
    where = positions.arange(9)
    pairs = zip(answers(built(name), where), answers(built(name), where + by), strict=True)
    assert all(torch.equal(here, there) for here, there in pairs)


@given(past=st.integers(0, 1000))
def test_a_learned_table_ends_with_a_clear_error(past):
    with pytest.raises(RopewalkError, match=rf"position {8 + past} has no row.*0 \.\. 7.*resized"):
        Learned(8, 4)(torch.zeros(1, 9 + past, 4))


def test_doors_are_those_that_the_subclass_answers_at():
    doors = {name.split()[0]: ENCODINGS[name]().doors for name in ENCODINGS}
    assert doors == {
        "nope": (), "sinusoidal": ("embed",), "learned": ("embed",), "rotary": ("rotate",), "alibi": ("bias",),
        "t5": ("bias",), "kerple": ("bias",), "sandwich": ("bias",), "fire": ("bias",), "shaw": ("relation",),
        "transformer-xl": ("relation",), "cope": ("relation",), "xpos": ("rotate",),
        "self-extend": ("rotate", "relation"), "dual": ("rotate", "relation"),
    }  # fmt: skip
    assert (HEADS, WIDTH) == (4, 16)
