"""What each encoding says at its door, against its formula by hand, and what it refuses."""

import math

import pytest
import torch

from ropewalk import (
    ALiBi,
    CoPE,
    Fire,
    Kerple,
    Learned,
    NoPE,
    RopewalkError,
    Rotary,
    Sandwich,
    Shaw,
    Sinusoidal,
    T5Bias,
    TransformerXL,
    positions,
)
from ropewalk.functional import sinusoidal_product
from ropewalk.modules import DistanceBias
from ropewalk.testing import rotate_complex

Q = torch.ones(1, 2, 3, 8)
Q_AT, K_AT = torch.tensor([3, 0, 7]), torch.tensor([0, 1, 3, 8])


def by_hand(formula, heads: int) -> torch.Tensor:
    """[H, T, S] of formula(head, query position, key position)."""
    return torch.tensor([[[formula(h, i, j) for j in K_AT.tolist()] for i in Q_AT.tolist()] for h in range(heads)])


def test_alibi():
    found = ALiBi(4).bias(Q_AT, K_AT)
    torch.testing.assert_close(found, by_hand(lambda h, i, j: -(4.0 ** -(h + 1)) * abs(i - j), 4), rtol=0, atol=0)


def test_alibi_that_looks_both_ways_by_halves_of_its_heads():
    slopes, never = [1 / 16, 1 / 256], -float("inf")  # of two heads, for each direction

    def formula(head: int, i: int, j: int) -> float:
        hidden = j > i if head < 2 else j < i
        return never if hidden else -slopes[head % 2] * abs(i - j)

    found = ALiBi(4, form="halves").bias(Q_AT, K_AT)
    torch.testing.assert_close(found, by_hand(formula, 4), rtol=0, atol=0)


def test_biases_of_rows_with_positions_of_their_own():
    rows = torch.stack((Q_AT, Q_AT + 5))
    for encoding in (ALiBi(4), ALiBi(4, form="halves"), T5Bias(4)):
        both = encoding.bias(rows, K_AT)
        assert both.shape == (2, 4, 3, 4)
        assert torch.equal(both[0], encoding.bias(Q_AT, K_AT))
        assert torch.equal(both[1], encoding.bias(Q_AT + 5, K_AT))


def test_t5_reads_its_table():
    encoding = T5Bias(2, buckets=4, max_distance=5)
    bucket = {0: 0, 1: 1, 2: 2, 3: 2, 4: 3, 7: 3}  # own buckets for 0 and 1, then steps of log(d / 2) / log(5 / 2) * 2

    def formula(head: int, i: int, j: int) -> float:
        return encoding.weight[bucket.get(max(i - j, 0), 3), head].item()

    torch.testing.assert_close(encoding.bias(Q_AT, K_AT).detach(), by_hand(formula, 2), rtol=0, atol=0)


@pytest.mark.parametrize("form", ["log", "power"])
def test_kerple(form):
    """Its numbers lie within their bounds, below them and, for the power, above."""
    encoding = Kerple(3, form)
    p, a = [0.7, -0.3, 2.5], [0.5, 0.001, 3.0]
    encoding.load_state_dict({"p": torch.tensor(p), "a": torch.tensor(a)})

    def formula(head: int, i: int, j: int) -> float:
        power, scale = max(p[head], 0.01), max(a[head], 0.01)
        return -power * math.log(1 + scale * abs(i - j)) if form == "log" else -scale * abs(i - j) ** min(power, 2)

    torch.testing.assert_close(encoding.bias(Q_AT, K_AT).detach(), by_hand(formula, 3), rtol=2e-6, atol=1e-7)
    assert encoding.state_dict()["p"].tolist() == pytest.approx(p)


@pytest.mark.parametrize("form", ["log", "power"])
def test_kerple_learns_at_its_bounds_too(form):
    encoding = Kerple(2, form)
    with torch.no_grad():
        encoding.p.fill_(-1.0)
    encoding.bias(Q_AT, K_AT).sum().backward()
    assert all(x.grad.isfinite().all() and (x.grad != 0).all() for x in (encoding.p, encoding.a))


def test_sandwich():
    """The products of the paper's vectors, made here; and the published values of the kernel."""
    frequencies = [10_000 ** (-2 * k / 128) for k in range(64)]

    def vector(m: int) -> torch.Tensor:
        angles = torch.tensor([m * f for f in frequencies], dtype=torch.float64)
        return torch.cat((angles.sin(), angles.cos()))

    found = Sandwich(3).bias(Q_AT, K_AT).double()
    expected = by_hand(lambda h, i, j: (vector(i) @ vector(j)).item() / (8 * (h + 1) / 3), 3).double()
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)
    published = sinusoidal_product(torch.tensor([0, 1, 16, 128, 511]))
    assert published.tolist() == pytest.approx([64, 62.09, 39.70, 21.30, 13.53], abs=5e-3)


def test_sandwich_far_away():
    """At distances that float32 angles would have lost."""
    far = 16_000_001
    exact = sum(math.cos(math.remainder(far * 10_000 ** (-2 * k / 128), 2 * math.pi)) for k in range(64))
    assert sinusoidal_product(torch.tensor([-far])).item() == pytest.approx(exact, abs=1e-5)


def test_fire():
    """Scalars, one pair at a time."""
    torch.manual_seed(0)
    encoding = Fire(2, hidden=4, threshold=5.0, c=0.3)
    with torch.no_grad():
        encoding.multiplier.fill_(-0.8)
    first, _, last = encoding.network
    psi = [[math.log(abs(encoding.c.item() * x) + 1) for x in range(10)], math.log(encoding.c.item() * 4.0 + 1)]

    def formula(head: int, i: int, j: int) -> float:
        share = psi[0][abs(i - j)] / (psi[0][i] if i > 4 else psi[1])
        hidden = [
            max(0.0, w * share + b) for w, b in zip(first.weight[:, 0].tolist(), first.bias.tolist(), strict=True)
        ]
        return sum(w * h for w, h in zip(last.weight[head].tolist(), hidden, strict=True))

    torch.testing.assert_close(encoding.bias(Q_AT, K_AT).detach(), by_hand(formula, 2), rtol=1e-5, atol=1e-6)


def test_fire_has_gradients_where_its_threshold_is_nothing():
    encoding, where = Fire(2), torch.arange(3)
    torch.nn.init.zeros_(encoding.multiplier)
    encoding.bias(where, where).sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in encoding.parameters())


def test_fire_learns_its_threshold_where_it_counts():
    encoding = Fire(2, threshold=5.0)
    encoding.bias(torch.tensor([3]), torch.arange(3)).sum().backward()
    assert encoding.multiplier.grad != 0
    encoding.zero_grad()
    encoding.bias(torch.tensor([30]), torch.arange(30)).sum().backward()
    assert encoding.multiplier.grad == 0
    assert encoding.c.grad != 0


def test_shaw_is_asymmetric_where_asked():
    encoding = Shaw(2, max_distance=2, max_future=1)
    assert encoding.keys.shape == encoding.values.shape == (4, 2)
    found = encoding.relation(torch.ones(1, 1, 3, 2), torch.ones(1, 1, 4, 2), Q_AT, K_AT)[0]
    expected = by_hand(lambda _, i, j: encoding.keys[min(max(j - i, -2), 1) + 2].sum().item(), 1)
    torch.testing.assert_close(found.detach(), expected)
    assert Shaw(2, 3, values=False).relation_values(torch.ones(1, 1, 3, 4), Q_AT, K_AT) is None


def test_transformer_xl_knows_the_past_from_the_future():
    """A query of zeros and no u: what is left is v . W r, with W such that r's first sine and cosine add up."""
    encoding = TransformerXL(2, heads=1, dim=4)
    with torch.no_grad():
        encoding.content_bias.zero_()
        encoding.distance_bias.copy_(torch.tensor([[1.0, 0.0]]))
        encoding.weight.copy_(torch.tensor([[1.0, 0.0, 1.0, 0.0], [9.0, 9.0, 9.0, 9.0]]))
    found = encoding.relation(torch.zeros(1, 1, 3, 2), torch.ones(1, 1, 4, 2), Q_AT, K_AT)[0]
    torch.testing.assert_close(found.detach(), by_hand(lambda _, i, j: math.sin(i - j) + math.cos(i - j), 1))


def test_cope_counts_by_position_what_is_seen():
    """Gates of 1/2 each, from a query that meets keys of 0, and vectors that say their number."""
    encoding = CoPE(4, max_position=3)
    with torch.no_grad():
        encoding.weight.copy_(torch.arange(3.0)[:, None] / 2)
    places, visible = torch.tensor([5, 2, 9, 5, 0, 7]), torch.tensor([True, True, True, True, True, False])
    found = encoding.relation(torch.ones(1, 1, 1, 4), torch.zeros(1, 1, 6, 4), torch.tensor([8]), places, visible)
    # From 8 back: 7 is hidden, 5 stands there twice, then 2 and 0; 9 is ahead. Times 4 / 2 of q . e, and sqrt(4).
    assert found[0, 0, 0].tolist() == [4 * n for n in (1.0, 1.5, 0.0, 1.0, 2.0, 0.0)]
    farther = encoding.relation(torch.ones(1, 1, 1, 4), torch.zeros(1, 1, 9, 4), torch.tensor([8]), torch.arange(9))
    assert farther[0, 0, 0].tolist() == [4 * min(n / 2, 2.0) for n in range(9, 0, -1)]


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotary_in_its_partial_conventions_and_backwards(layout):
    torch.manual_seed(0)
    q, k, where = torch.randn(2, 3, 5, 16), torch.randn(2, 1, 5, 16), positions.arange(5, offset=40)
    angles = where.double()[:, None] * 10_000.0 ** (-torch.arange(0, 6, 2).double() / 6)
    for reverse in (False, True):
        turn = -angles if reverse else angles
        leading = Rotary(16, rotary_dim=6, layout=layout, reverse=reverse)(q, k, where)
        trailing = Rotary(16, rotary_dim=6, layout=layout, block="trailing", reverse=reverse)(q, k, where)
        for x, lead, trail in zip((q, k), leading, trailing, strict=True):
            torch.testing.assert_close(lead.double(), rotate_complex(x, turn, layout=layout), rtol=0, atol=2e-6)
            tail = rotate_complex(x[..., 10:], turn, layout=layout)
            torch.testing.assert_close(trail.double(), torch.cat((x[..., :10], tail), -1), rtol=0, atol=2e-6)


def test_learned_rows_and_offsets():
    table = Learned(6, 3, offset=2)
    x = torch.zeros(2, 2, 3)
    found = table(x, torch.tensor([[-1, 0], [5, -2]]))
    torch.testing.assert_close(found, table.weight[torch.tensor([[1, 2], [7, 0]])])
    assert table.weight.shape == (8, 3)


@pytest.mark.parametrize("new", [4, 8, 16])
def test_a_resized_table_keeps_its_rows(new):
    old = Learned(8, 4, offset=2).bfloat16().eval()
    old.weight.requires_grad_(False)
    larger = old.resized(new)
    kept = min(new, 8) + 2
    assert torch.equal(larger.weight[:kept], old.weight[:kept])
    assert (larger.max_length, larger.weight.shape, larger.weight.dtype) == (new, (new + 2, 4), torch.bfloat16)
    assert not larger.weight.requires_grad
    assert not larger.training
    assert new <= 8 or larger.weight[10:].float().std() > 0.005


def test_input_sums_are_rounded_once():
    x = torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(0)).bfloat16()
    found, table = Sinusoidal(8)(x), Sinusoidal(8).rows(torch.arange(4))
    assert torch.equal(found, (x.float() + table).bfloat16())


def test_parameters_are_counted():
    sizes = [
        T5Bias(8),
        TransformerXL(16, 4),
        CoPE(64, 16),
        Shaw(64, 16),
        Shaw(64, 16, values=False),
        Learned(100, 8),
        ALiBi(8),
        NoPE(),
        Rotary(8),
        Sinusoidal(8),
    ]
    counts = [sum(parameter.numel() for parameter in encoding.parameters()) for encoding in sizes]
    assert counts == [256, 2 * 64 + 64 * 64, 16 * 64, 2 * 33 * 64, 33 * 64, 800, 0, 0, 0, 0]


@pytest.mark.parametrize(("call", "message"), [
    (lambda: ALiBi(0), "heads=0"), (lambda: ALiBi(8, rule="mpt"), "rule='mpt'"),
    (lambda: ALiBi(8, form="left"), "form='left'"), (lambda: ALiBi(3, form="halves"), "heads=3 is odd"),
    (lambda: T5Bias(0), "heads=0"), (lambda: T5Bias(8, buckets=1), "buckets=1"),
    (lambda: Kerple(0), "heads=0"), (lambda: Kerple(8, "exp"), "form='exp'"),
    (lambda: Sandwich(0), "heads=0"), (lambda: Sandwich(8, 7), "dim=7"), (lambda: Fire(0), "heads=0"),
    (lambda: Fire(8, 0), "hidden=0"), (lambda: Fire(8, threshold=0), "threshold=0"), (lambda: Fire(8, c=-1), "c=-1"),
    (lambda: T5Bias(8, max_distance=4), "max_distance=4"), (lambda: Shaw(0, 4), "head_dim=0"),
    (lambda: Shaw(8, -1), "max_distance=-1"), (lambda: Shaw(8, 4, 0.5), "max_future=0.5"),
    (lambda: TransformerXL(0, 4), "head_dim=0"), (lambda: TransformerXL(8, 0), "heads=0"),
    (lambda: TransformerXL(8, 4, 7), "dim=7 is odd"), (lambda: TransformerXL(3, 5), "dim=15 is odd"),
    (lambda: TransformerXL(8, 4).relation(Q, Q, Q_AT, Q_AT), "queries have 2 heads of width 8.* 4 heads of width 8"),
    (lambda: CoPE(0, 4), "head_dim=0"), (lambda: CoPE(8, 0), "max_position=0"),
    (lambda: CoPE(16, 4).relation(Q, Q, Q_AT, Q_AT), "queries have 2 heads of width 8.* width 16"),
    (lambda: Learned(0, 8), "max_length=0"), (lambda: Learned(8, 8, offset=-1), "offset=-1"),
    (lambda: Learned(8, 8).resized(0), "max_length=0"), (lambda: Sinusoidal(0), "dim=0"),
    (lambda: Sinusoidal(8, "sin"), "order='sin'"), (lambda: Sinusoidal(8, grid="t2t"), "grid='t2t'"),
    (lambda: Sinusoidal(8, persistent=True, max_length=0), "max_length=0"),
    (lambda: Rotary(8, block="middle"), "block='middle'"),
    (lambda: Sinusoidal(8)(torch.zeros(1, 4, 6)), r"x of shape \(1, 4, 6\) does not fit 4 positions of width 8"),
    (lambda: Learned(8, 8)(torch.zeros(1, 4, 8), torch.arange(4.0)), "give a tensor of integers"),
    (lambda: Learned(8, 8, offset=1)(torch.zeros(1, 1, 8), torch.tensor([-2])), r"position -2 has no row.* -1 \.\. 7"),
    (lambda: ALiBi(8).bias(torch.arange(3.0), torch.arange(3)), "give a tensor of integers"),
    (lambda: Shaw(8, 2).relation_values(torch.ones(1, 1, 3, 3), torch.arange(3.0), torch.arange(3)), "integers"),
])  # fmt: skip
def test_refusals(call, message):
    with pytest.raises(RopewalkError, match=message):
        call()


def test_a_distance_bias_without_its_formula_says_so():
    with pytest.raises(NotImplementedError):
        DistanceBias().bias(Q_AT, K_AT)
