"""attend in bfloat16 and float16 against its float64 result, to no more than the roundings that it may make."""

import copy

import pytest
import torch
from every_encoding import HEADS, RELATIVE, WIDTH, built, sample
from torch import Tensor

from ropewalk import ALiBi, Encoding, attend, positions

LOW = [torch.bfloat16, torch.float16]


def allowed(encoding: Encoding, q: Tensor, k: Tensor, v: Tensor, dtype: torch.dtype, options: dict) -> Tensor:
    """How far an output may be off, [B, H, T, D]; q, k, v and the encoding in float64.

    With u the unit roundoff of `dtype`: rotation rounds each feature of q and k once, so a logit is off by at most
    d = (2u + u^2) scale |q| . |k|, rotated, and a weight by a factor of at most e^2d. A fused kernel rounds weights to
    `dtype` once, and the output is rounded once. All else is float32, where 1e-4 of a logit is wide.
    """
    unit = torch.finfo(dtype).eps / 2
    d = 1e-4 * torch.ones(*q.shape[:-1], 1, dtype=torch.float64)
    if "rotate" in encoding.doors:
        places = [options.get(f"{x}_positions", positions.arange(y.shape[-2])) for x, y in (("q", q), ("k", k))]
        turned, keys = encoding.rotate(q, k, *places)
        products = turned.abs() @ keys.abs().repeat_interleave(HEADS // k.shape[1], dim=1).mT
        d = d + (2 * unit + unit**2) * WIDTH**-0.5 * products.amax(-1, keepdim=True)
    positive = copy.deepcopy(encoding)
    if getattr(positive, "values", None) is not None:
        positive.values.data.abs_()
    mass = attend(q, k, v.abs(), encoding=positive, backend="reference", **options)  # sum of weights x |values|
    exact = attend(q, k, v, encoding=encoding, backend="reference", **options).abs()
    off = ((2 * d).exp() * (1 + unit) - 1) * mass
    return off + unit * (exact + off)


def compare(encoding: Encoding, q: Tensor, k: Tensor, v: Tensor, backend: str, **options) -> None:
    """q, k, v and the encoding's parameters in a low precision, against float64 of the same numbers."""
    exact, doubled = copy.deepcopy(encoding).double(), [given.double() for given in (q, k, v)]
    found = attend(q, k, v, encoding=encoding, backend=backend, **options)
    expected = attend(*doubled, encoding=exact, backend="reference", **options)
    assert found.dtype == q.dtype
    over = (found.double() - expected).abs() / allowed(exact, *doubled, q.dtype, options)
    assert over.max() <= 1, f"{over.max():.2f} times what roundings allow"


@pytest.mark.parametrize("options", [{"causal": True}, {"causal": False}, {"causal": True, "window": 7}], ids=str)
@pytest.mark.parametrize("dtype", LOW, ids=str)
@pytest.mark.parametrize("name", RELATIVE)
def test_every_encoding(name, dtype, options):
    encoding = built(name).to(dtype)
    q, k, v = (0.7 * sample(2, heads, 40, WIDTH, seed=heads) for heads in (HEADS, 2, 2))
    with torch.no_grad():  # else a bias that learns keeps the fused kernels out
        compare(encoding, q.to(dtype), k.to(dtype), v.to(dtype), "auto", **options)
        compare(encoding, q.to(dtype), k.to(dtype), v.to(dtype), "reference", **options)


@pytest.mark.parametrize("name", [name for name in RELATIVE if name.startswith("rotary")])
def test_rotary_far_out(name):
    q, k, v = (0.7 * sample(1, HEADS, 20, WIDTH, seed=seed, dtype=torch.bfloat16) for seed in range(3))
    where = positions.arange(20, 1_000_000)
    compare(built(name).to(torch.bfloat16), q, k, v, "auto", causal=True, q_positions=where, k_positions=where)


class RoundedBias(ALiBi):
    """What a bias in bfloat16 would be."""

    def by_distance(self, relative: Tensor) -> Tensor:
        return super().by_distance(relative).bfloat16().float()


class RoundedPositions(ALiBi):
    """What positions in bfloat16 would be."""

    def bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        return super().bias(q_positions.bfloat16().long(), k_positions.bfloat16().long())


def at_600(encoding: Encoding, backend: str) -> None:
    """Only the first 300 tokens are real, and the last 40 ask: distances of 260 to 599 and nothing nearer."""
    q, k, v = (0.7 * sample(1, HEADS, 600, WIDTH, seed=seed, dtype=torch.bfloat16) for seed in range(3))
    real = (torch.arange(600) < 300)[None]
    compare(encoding, q[:, :, -40:], k, v, backend, causal=True, key_mask=real)


@pytest.mark.parametrize("backend", ["auto", "reference", "sdpa"])
def test_alibi_past_256(backend):
    at_600(ALiBi(HEADS).to(torch.bfloat16), backend)


@pytest.mark.parametrize("backend", ["auto", "reference", "sdpa"])
@pytest.mark.parametrize("wrong", [RoundedBias, RoundedPositions])
def test_which_would_show_a_bias_that_was_rounded(wrong, backend):
    q, k, v = (0.7 * sample(1, HEADS, 600, WIDTH, seed=seed) for seed in range(3))
    options = {"causal": True, "key_mask": (torch.arange(600) < 300)[None]}
    exact = [given.bfloat16().double() for given in (q[:, :, -40:], k, v)]
    found = attend(*(given.bfloat16() for given in exact), encoding=wrong(HEADS), backend=backend, **options)
    expected = attend(*exact, encoding=ALiBi(HEADS), backend="reference", **options)
    over = (found.double() - expected).abs() / allowed(ALiBi(HEADS), *exact, torch.bfloat16, options)
    assert over.max() > 5


@pytest.mark.parametrize("dtype", LOW, ids=str)
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_gradients_come_back_in_the_dtype_of_their_input(backend, dtype):
    for name in RELATIVE:
        encoding = built(name).to(dtype)
        low = [sample(1, HEADS, 12, WIDTH, seed=seed, dtype=dtype).requires_grad_() for seed in range(3)]
        high = [given.detach().double().requires_grad_() for given in low]
        attend(*low, causal=True, encoding=encoding, backend=backend).float().square().sum().backward()
        exact = copy.deepcopy(encoding).double()
        attend(*high, causal=True, encoding=exact, backend="reference").square().sum().backward()
        pairs = [*zip(low, high, strict=True), *zip(encoding.parameters(), exact.parameters(), strict=True)]
        for one, other in pairs:
            assert one.grad.dtype == dtype
            wrong = (one.grad.double() - other.grad).norm() / other.grad.norm()
            assert wrong < 8 * torch.finfo(dtype).eps, f"{name}: {wrong:.4f}"
