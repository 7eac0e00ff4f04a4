"""xPos: against its formula in float64, and what its centre must not change."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ropewalk import RopewalkError, XPos, attend, positions
from ropewalk.models import Cache, Decoder
from ropewalk.testing import attend_densely, rotate_complex

WIDTH = 16


def heads(tokens: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(2, n, tokens, WIDTH, generator=generator).to(dtype) for n in (4, 2, 2)]


def scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT


def written_out(q, k, q_where, k_where, *, scale_base: float, base: float = 10_000.0, layout: str = "half"):
    """sum over pairs p of zeta_p^((i - j) / S) Re[q_p conj(k_p) e^(i theta_p (i - j))], pair by pair and uncentred."""
    k, total = k.double().repeat_interleave(q.shape[1] // k.shape[1], dim=1), 0.0
    behind = (q_where[:, None] - k_where[None]).double()
    for pair in range(WIDTH // 2):
        features = [pair, pair + WIDTH // 2] if layout == "half" else [2 * pair, 2 * pair + 1]
        theta, zeta = base ** (-2 * pair / WIDTH), (2 * pair / WIDTH + 0.4) / 1.4
        one, other = (torch.complex(*x[..., features].double().unbind(-1)) for x in (q, k))
        turn = torch.polar(torch.ones_like(behind), theta * behind)
        total = total + zeta ** (behind / scale_base) * (one[..., :, None] * other[..., None, :].conj() * turn).real
    return total


@given(
    layout=st.sampled_from(["half", "interleaved"]),
    scale_base=st.sampled_from([16.0, 100.0, 512.0]),
    start=st.sampled_from([0, 1000, 16_000_000]),
    gaps=st.lists(st.integers(0, 40), min_size=6, max_size=6),
)
def test_scores_are_the_formula(layout, scale_base, start, gaps):
    q, k, _ = heads(6)
    q_where = start + torch.tensor(gaps)
    k_where = start + torch.tensor(gaps).flip(0) + 3
    turned = XPos(WIDTH, scale_base=scale_base, layout=layout)(q, k, q_positions=q_where, k_positions=k_where)
    expected = written_out(q, k, q_where, k_where, scale_base=scale_base, layout=layout)
    torch.testing.assert_close(scores(*turned).double(), expected, rtol=0, atol=2e-6 * expected.abs().max().item())


def test_attention_and_its_gradients_are_the_formula():
    given_ = [x.requires_grad_() for x in heads(40)]
    q, k, v = given_
    out = attend(q, k, v, causal=True, encoding=XPos(WIDTH, scale_base=20.0))
    where = torch.arange(40)
    logits = written_out(q, k, where, where, scale_base=20.0) * WIDTH**-0.5
    weights = logits.masked_fill(where[None] > where[:, None], -torch.inf).softmax(-1)
    expected = weights @ v.double().repeat_interleave(2, dim=1)
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=2e-6)
    found, wanted = (torch.autograd.grad(y.square().sum(), given_, retain_graph=True) for y in (out, expected))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5 * other.abs().max().item())


@given(far=st.integers(0, 5000), dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float64]))
def test_the_centre_changes_no_bit_of_a_product(far, dtype):
    """A key far behind moves the centre: products of features are still equal, each to the last bit."""
    q, k, _ = heads(4, dtype)
    rope, where = XPos(WIDTH), torch.arange(4)
    alone = rope(q, k, where + far)
    q_far, k_far = rope.rotate(q, torch.cat((k[:, :, :1], k), dim=2), where + far, torch.cat((where[:1], where + far)))
    for head in range(2):
        near = alone[0][:, head] * alone[1][:, head]
        assert torch.equal(near, q_far[:, head] * k_far[:, head, 1:])


def test_steps_from_a_cache_are_the_prefill_to_the_last_bit_of_the_scores():
    """The Decoder keeps keys un-rotated, so that each step has a centre of its own."""
    torch.manual_seed(0)
    model = Decoder(50, 64, layers=2, heads=4, kv_heads=2, encoding=XPos(WIDTH, scale_base=8.0))
    tokens, cache = torch.randint(50, (2, 60)), Cache()
    steps = torch.cat([model(tokens[:, i : i + 1], cache=cache) for i in range(60)], dim=1)
    torch.testing.assert_close(steps, model(tokens), rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_widest_span_still_gives_right_weights(dtype):
    """Every query sees its near past, at both ends of the span; the corner of the future is masked, and is finite."""
    rope = XPos(WIDTH, scale_base=4.0)
    tokens = rope.longest_span(dtype) + 1
    q, k, v = (x[:1] for x in heads(tokens, dtype))
    turned = rope(q, k)
    assert all(x.isfinite().all() for x in turned)
    assert scores(*(x.float() for x in turned)).isfinite().all()
    out = attend(q, k, v, causal=True, encoding=rope)
    where = torch.arange(tokens)
    logits = written_out(q, k, where, where, scale_base=4.0) * WIDTH**-0.5
    weights = logits.masked_fill(where[None] > where[:, None], -torch.inf).softmax(-1)
    expected = weights @ v.double().repeat_interleave(2, dim=1)
    tolerance = {torch.float32: 3e-6, torch.bfloat16: 3e-2, torch.float16: 4e-3}[dtype]
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=tolerance)


def test_scores_fade_with_distance_and_fast_pairs_first():
    rope, one = XPos(WIDTH, scale_base=10.0), torch.zeros(1, 1, 1, WIDTH)
    lengths = []
    for pair in (0, WIDTH // 2 - 1):
        q = one.clone()
        q[..., [pair, pair + WIDTH // 2]] = 1.0
        for distance in (0, 20, 40):
            a, b = rope(q, q, q_positions=torch.tensor([distance]), k_positions=torch.tensor([0]))
            lengths.append((a.norm() * b.norm()).item())
    fast, slow = lengths[:3], lengths[3:]
    assert fast[0] > 10 * fast[1] > 100 * fast[2]
    assert slow[0] > slow[1] > slow[2] > fast[2]


@pytest.mark.parametrize("where", [torch.arange(3), torch.tensor([[0, 1, 2], [7, 900, 1000]])])
def test_rows_have_a_centre_of_their_own(where):
    q, k, _ = heads(3)
    turned = XPos(WIDTH)(q, k, where)
    for row in range(2):
        own = XPos(WIDTH)(q[row : row + 1], k[row : row + 1], where if where.dim() == 1 else where[row])
        assert all(torch.equal(one[row], other[0]) for one, other in zip(turned, own, strict=True))


def test_no_tokens():
    q, k, _ = heads(0)
    assert XPos(WIDTH)(q, k)[0].shape == (2, 4, 0, WIDTH)


Q, K, _ = heads(2)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: XPos(15), "dim=15 is odd"),
    (lambda: XPos(16, scale_base=0), "scale_base=0 is not a number above 0"),
    (lambda: XPos(16, layout="neox"), "layout='neox'"),
    (lambda: XPos(32)(Q, K), "width 16 was given to an encoding of 32"),
    (lambda: XPos(16)(Q, K, torch.tensor([0.0, 1.0])), "give a tensor of integers"),
    (lambda: XPos(16)(Q, K, q_positions=torch.arange(2)), "together"),
    (lambda: XPos(16)(Q, K, torch.tensor([0, 28_329])), "span 28329, and at scale_base=512 torch.float32 holds 28328"),
    (lambda: XPos(16)(Q.half(), K.half(), torch.tensor([0, 4_533])), "span 4533"),
    (lambda: attend(Q, K, K, causal=True, encoding=XPos(16), q_positions=torch.tensor([0, 40_000])), "a larger scale"),
])  # fmt: skip
def test_refusals(call, message):
    with pytest.raises(RopewalkError, match=message):
        call()


def test_a_dense_oracle_of_one_step():
    """`attend` with positions out of order, against turning by hand with c = 0 and a dense softmax."""
    q, k, v = heads(5)
    where = torch.tensor([9, 2, 30, 4, 17])
    out = attend(q, k, v, causal=True, encoding=XPos(WIDTH), q_positions=where, k_positions=where)
    zeta = ((2 * torch.arange(8).double() / 16 + 0.4) / 1.4).repeat(2)
    angles = where.double()[:, None] * 10_000.0 ** (-torch.arange(8).double() / 8)
    power = where.double()[:, None] / 512
    turned = rotate_complex(q, angles) * zeta**power, rotate_complex(k, angles) * zeta**-power
    expected = attend_densely(*turned, v, visible=where[None] <= where[:, None])
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=2e-6)


def test_positions_drawn_at_random():
    where = positions.randomized(12, 2000, rows=2, generator=torch.Generator().manual_seed(1))
    q, k, v = heads(12)
    out = attend(q, k, v, causal=True, encoding=XPos(WIDTH), q_positions=where, k_positions=where)
    for row in range(2):
        one = where[row]
        logits = written_out(q[row : row + 1], k[row : row + 1], one, one, scale_base=512.0) * WIDTH**-0.5
        weights = logits.masked_fill(one[None] > one[:, None], -torch.inf).softmax(-1)
        expected = weights @ v[row : row + 1].double().repeat_interleave(2, dim=1)
        torch.testing.assert_close(out[row : row + 1].double(), expected, rtol=0, atol=2e-6)
