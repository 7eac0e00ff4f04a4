"""Biases and windows without a mask: the weights of the mask, its gradients, and a rounding that stays as small."""

import pytest
import torch
from torch import Tensor

from ropewalk import ALiBi, DualChunk, NoPE, Rotary, SelfExtend, Shaw, T5Bias, attend
from ropewalk.attention import flash
from ropewalk.modules.encoding import DistanceBias, Encoding
from ropewalk.testing import attend_densely


class Forget(Encoding):
    """A forgetting gate's bias: the sum of log gates between query and key, of the same numbers for every sequence."""

    def __init__(self, heads: int, tokens: int) -> None:
        super().__init__()
        gates = torch.rand(heads, tokens, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        self.sums = gates.mul(0.9).add(0.1).log().cumsum(-1)

    def potential(self, positions: Tensor) -> Tensor:
        return -self.sums[:, positions]

    def bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        return self.sums[:, q_positions, None] - self.sums[:, None, k_positions]


class Slopes(Encoding):
    """ALiBi as a difference of two numbers, which grow with the length."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.slopes = ALiBi(heads).slopes.double()

    def potential(self, positions: Tensor) -> Tensor:
        return self.slopes[:, None] * positions

    def bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        raise AssertionError("the difference serves")


def tensors(queries: int, keys: int, heads: int, kv_heads: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    random = torch.Generator().manual_seed(0)
    shapes = [(2, heads, queries, 16), (2, kv_heads, keys, 16), (2, kv_heads, keys, 16)]
    return [torch.randn(shape, generator=random, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]


class Past(DistanceBias):
    """Hides what is nearer than three tokens, so that the first queries see nothing."""

    def by_distance(self, relative: Tensor) -> Tensor:
        return torch.zeros_like(relative, dtype=torch.float32).masked_fill(relative > -3, -torch.inf)[..., None, :, :]


EVERY = torch.ones(2, 300, dtype=torch.bool)  # a mask that hides nothing, and keeps the other path
CASES = [
    (300, 300, 4, 4),
    (128, 128, 2, 2),
    (129, 129, 4, 1),
    (2, 2, 4, 2),
    (1, 40, 4, 2),
    (5, 300, 4, 2),
    (200, 333, 8, 8),
]
CALLS = {
    "alibi": (ALiBi, {"causal": True}),
    "alibi, a window": (ALiBi, {"causal": True, "window": 50}),
    "alibi, both ways": (ALiBi, {"causal": False}),
    "alibi, halves": (lambda heads: ALiBi(heads, form="halves"), {"causal": False, "window": 9}),
    "t5": (T5Bias, {"causal": True}),
    "t5, both ways": (lambda heads: T5Bias(heads, bidirectional=True), {"causal": False}),
    "rotary, a window": (lambda heads: Rotary(16), {"causal": True, "window": 40}),
    "a window of one": (lambda heads: NoPE(), {"causal": True, "window": 1}),
    "a window both ways": (lambda heads: NoPE(), {"causal": False, "window": 33}),
    "forget": (lambda heads: Forget(heads, 333), {"causal": True}),
    "shaw": (lambda heads: Shaw(16, 12), {"causal": True}),
    "shaw, of keys": (lambda heads: Shaw(16, 200, max_future=0, values=False), {"causal": True}),
    "shaw, no distance": (lambda heads: Shaw(16, 0), {"causal": True}),
    "shaw, a window": (lambda heads: Shaw(16, 20), {"causal": True, "window": 9}),
    "self-extend": (lambda heads: SelfExtend(Rotary(16), group=7, window=40), {"causal": True}),
    "self-extend, a window": (lambda heads: SelfExtend(Rotary(16), group=7, window=40), {"causal": True, "window": 90}),
    "dual chunk": (lambda heads: DualChunk(Rotary(16), chunk_size=70, local_size=9), {"causal": True}),
    "queries that see nothing": (lambda heads: Past(), {"causal": True}),
}


@pytest.fixture
def calls(monkeypatch):
    """The kernel's calls, by the shape of the mask that each was given and what the mask holds in memory."""
    seen = []

    def spied(q, k, v, mask, scale, _run=flash.forward):
        seen.append((tuple(mask.shape), mask.untyped_storage().nbytes()))
        return _run(q, k, v, mask, scale)

    monkeypatch.setattr(flash, "forward", spied)
    return seen


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(("queries", "keys", "heads", "kv_heads"), CASES)
def test_it_is_attention_with_the_bias(queries, keys, heads, kv_heads, name, calls):
    """Output and gradients, those of what the encoding learns too, in float64 against the formula written out."""
    make, options = CALLS[name]
    given, encoding = tensors(queries, keys, heads, kv_heads), make(heads).double()
    leaves = [*given, *encoding.parameters()]
    upstream, found = torch.randn(2, heads, queries, 16, dtype=torch.float64), []
    for backend in ("auto", "reference"):
        out = attend(*given, encoding=encoding, backend=backend, **options)
        found.append((out, *torch.autograd.grad(out, leaves, upstream)))
        assert len(calls) > 0  # or else the formula would be compared with itself
    for mine, expected in zip(*found, strict=True):
        torch.testing.assert_close(mine, expected, atol=1e-11, rtol=1e-11)


def test_no_mask_is_made(calls):
    """What the kernel is given as a mask is a table: of a number a distance and head, or a key and head."""
    q, k, v = tensors(300, 300, 4, 4)
    for encoding in (ALiBi(4), T5Bias(4), Forget(4, 300)):
        calls.clear()
        attend(q, k, v, causal=True, encoding=encoding)
        assert sum(rows * keys for (_, _, rows, keys), _ in calls) > 300 * 300 / 2
        assert max(bytes for (_, _, rows, keys), bytes in calls if keys > 128) <= 8 * 4 * 600


def test_a_window_reads_the_keys_it_sees_and_few_more(calls):
    """So that its cost goes with the window and not with the length."""
    for tokens in (1000, 2000):
        calls.clear()
        attend(*tensors(tokens, tokens, 1, 1), causal=True, window=100)
        assert sum(rows * keys for (_, _, rows, keys), _ in calls) <= 1.4 * 100 * tokens


@pytest.mark.parametrize("options", [
    {"key_mask": EVERY}, {"softcap": 5.0}, {"dropout_p": 0.1}, {"sinks": torch.zeros(4)},
    {"documents": torch.zeros(300).int()},
    {"q_positions": torch.arange(300).flip(0), "k_positions": torch.arange(300)},
])  # fmt: skip
def test_other_calls_go_other_ways(options, calls):
    given = tensors(300, 300, 4, 4)
    for encoding in (ALiBi(4), Forget(4, 300), Shaw(16, 4)):
        attend(*given, causal=True, encoding=encoding, **options)
    attend(*given, causal=False, encoding=Shaw(16, 4))
    assert not calls


def test_without_the_kernel_the_mask_serves(monkeypatch, calls):
    """It is torch's own affair, under a private name, and may be gone tomorrow."""
    given = tensors(300, 300, 4, 2)
    for encoding in (ALiBi(4), Forget(4, 300)):
        expected = attend(*given, causal=True, encoding=encoding)
        made = len(calls)
        with monkeypatch.context() as without:
            without.setattr(flash, "_FORWARD", "no_such_operator")
            torch.testing.assert_close(attend(*given, causal=True, encoding=encoding), expected, atol=1e-11, rtol=1e-11)
        assert len(calls) == made > 0


class Gates(Forget):
    """A forget gate's bias from the gates of this very text, a sequence each."""

    def __init__(self, gates: Tensor) -> None:
        Encoding.__init__(self)
        self.sums = -gates.cumsum(-1)

    def potential(self, positions: Tensor) -> Tensor:
        return -self.sums[..., positions]

    def bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        return self.sums[..., q_positions, None] - self.sums[..., None, k_positions]


def test_gates_that_a_model_computes_get_their_gradient(calls):
    given = tensors(300, 300, 4, 2)
    gates = torch.rand(2, 4, 300, dtype=torch.float64).log().requires_grad_()
    mine = attend(*given, causal=True, encoding=Gates(gates))
    assert calls
    dense = attend_densely(*given, visible=torch.ones(300, 300, dtype=torch.bool).tril(),
                           bias=Gates(gates).bias(torch.arange(300), torch.arange(300)))  # fmt: skip
    torch.testing.assert_close(mine, dense, atol=1e-11, rtol=1e-11)
    upstream = torch.randn_like(mine)
    found, expected = (torch.autograd.grad(out, [*given, gates], upstream) for out in (mine, dense))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize(
    ("make", "bound"), [(ALiBi, 2e-6), (lambda heads: Slopes(heads), 4e-6)], ids=["table", "difference"]
)
@pytest.mark.parametrize("heads", [4, 8])
@pytest.mark.parametrize("tokens", [1024, 4096])
def test_its_error_in_float32_does_not_grow_with_the_length(heads, tokens, make, bound):
    """Against float64 on the last queries, whose keys are the farthest: within the bound of values of size 1."""
    random = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(1, heads, tokens, 64, generator=random) for _ in range(3))
    mine = attend(q, k, v, causal=True, encoding=make(heads))[:, :, -300:]
    last = [q[:, :, -300:].double(), k.double(), v.double()]
    exact = attend(*last, causal=True, encoding=ALiBi(heads), backend="reference")
    assert (mine.double() - exact).abs().max() <= bound


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_in_low_precision_it_errs_as_the_mask_does(dtype):
    given = tensors(300, 300, 4, 2, dtype)
    exact = attend(*(x.double() for x in given), causal=True, encoding=ALiBi(4), backend="reference")
    errors = []
    for path in (attend(*given, causal=True, encoding=ALiBi(4)),
                 attend(*given, causal=True, encoding=ALiBi(4), key_mask=EVERY)):  # fmt: skip
        assert path.dtype == dtype
        errors.append(float((path.double() - exact).detach().abs().max()))
    assert errors[0] <= 2 * errors[1] + 2e-6


def test_slopes_that_were_changed_are_the_ones_used():
    """Falcon's are divided by the root of the head's width."""
    q, k, v = tensors(200, 200, 4, 4)
    encoding = ALiBi(4)
    encoding.slopes = encoding.slopes * 0.25
    seen = torch.ones(200, 200, dtype=torch.bool).tril()
    expected = attend_densely(q, k, v, visible=seen, bias=encoding.bias(torch.arange(200), torch.arange(200)))
    assert torch.allclose(attend(q, k, v, causal=True, encoding=encoding), expected, atol=1e-9)


def test_views_and_expanded_gradients():
    """The kernel takes features that lie together and does not ask: what lies apart is brought together first."""
    given = [
        x.detach().transpose(-1, -2).contiguous().transpose(-1, -2).requires_grad_() for x in tensors(200, 200, 4, 2)
    ]
    found = []
    for backend in ("sdpa", "reference"):
        out = attend(*given, causal=True, encoding=ALiBi(4), backend=backend)
        found.append(torch.autograd.grad((out * 3).sum() + out.expand(2, *out.shape).sum(), given))
    for mine, expected in zip(*found, strict=True):
        assert torch.allclose(mine, expected, atol=1e-11)


def test_nothing_to_attend_to():
    for batch, queries in ((0, 5), (2, 0)):
        x = torch.randn(batch, 4, queries, 16)
        assert attend(x, x, x, causal=True, encoding=ALiBi(4)).shape == x.shape


@pytest.mark.parametrize("scale", [0.0, -0.5])
@pytest.mark.parametrize("encoding", [None, ALiBi(4)])
def test_a_scale_of_nothing_or_less(scale, encoding):
    """torch's triangle gives NaN for it."""
    given = tensors(200, 200, 4, 2)
    found = attend(*given, causal=True, encoding=encoding, scale=scale)
    expected = attend(*given, causal=True, encoding=encoding, scale=scale, backend="reference")
    assert torch.allclose(found, expected, atol=1e-11)


@pytest.mark.parametrize("make", [T5Bias, lambda heads: Shaw(16, 20)], ids=["t5", "shaw"])
def test_the_backward_pass_may_take_other_blocks(make, monkeypatch):
    """Where logits are made, fewer queries at once: their memory is bounded whatever the length."""
    given, encoding = tensors(300, 300, 4, 2), make(4).double()
    leaves, found = [*given, *encoding.parameters()], []
    for rows in (256, 37):
        monkeypatch.setattr(flash, "rows_with_logits", lambda q, k, most, rows=rows: min(most, rows))
        found.append(torch.autograd.grad(attend(*given, causal=True, encoding=encoding).square().sum(), leaves))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)
    monkeypatch.undo()
    long = torch.empty(1, 8, 32768, 1)
    assert flash.rows_with_logits(long, long, 256) * 8 * 32768 <= 2 * 2**22
