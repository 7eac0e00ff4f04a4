"""Queries in blocks give what queries at once give, forward and backward."""

import pytest
import torch
from every_encoding import DIM, ENCODINGS, HEADS, WIDTH, attended, built, decoder, sample, tokens
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ropewalk import attend, positions
from ropewalk.attention import blocks
from ropewalk.attention.job import Job

LENGTH = 13
REAL = torch.arange(LENGTH) > torch.tensor([[3], [-1]])  # the first four tokens of row 0 see nothing
DOCUMENTS = torch.tensor([0] * 4 + [1] * 2 + [2] * 7)
OPTIONS = {
    "causal": {"causal": True},
    "both ways": {"causal": False},
    "window": {"causal": True, "window": 3},
    "window both ways": {"causal": False, "window": 3},
    "masked": {"causal": True, "key_mask": REAL},
    "masked both ways": {"causal": False, "key_mask": REAL, "window": 6},
    "documents": {"causal": True, "documents": DOCUMENTS},
    "placed": {"causal": True, "window": 9},  # + positions out of order
}


def small(monkeypatch, rows: int, logits: int = 1) -> None:
    monkeypatch.setattr(blocks, "LOGITS", logits)
    monkeypatch.setattr(blocks, "LEAST_ROWS", rows)


def places(name: str) -> Tensor | None:
    order = torch.randperm(LENGTH, generator=torch.Generator().manual_seed(0))
    return torch.stack((order, order.flip(0) + 7)) if name == "placed" else None


def ran(name: str, options: str, backend: str, kv_heads: int = 2) -> list[Tensor]:
    """The output and all gradients, in float64."""
    encoding, x = built(name).double(), sample(2, LENGTH, DIM, dtype=torch.float64).requires_grad_()
    output = attended(encoding, x, places(options), backend=backend, kv_heads=kv_heads, **OPTIONS[options])
    (output * sample(*output.shape, seed=5, dtype=torch.float64)).sum().backward()
    return [output.detach(), x.grad, *(parameter.grad for parameter in encoding.parameters())]


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", ENCODINGS)
def test_every_encoding_and_option(name, options, backend, monkeypatch):
    expected = ran(name, options, backend)
    small(monkeypatch, rows=2)
    for one, other in zip(ran(name, options, backend), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("rows", [1, 3, 4, 6, 12, 13])
@pytest.mark.parametrize("name", ["rotary", "alibi halves", "t5", "shaw", "transformer-xl", "cope"])
def test_blocks_of_any_size(name, rows, monkeypatch):
    for options in ("causal", "window", "placed"):
        expected = ran(name, options, "reference", kv_heads=1)
        with monkeypatch.context() as patch:
            small(patch, rows)
            found = ran(name, options, "reference", kv_heads=1)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_there_are_several_blocks(monkeypatch):
    """That the tests above test what they say: seven blocks of two, which are computed again for their gradients."""
    small(monkeypatch, rows=2)
    seen, block = [], Job.block
    monkeypatch.setattr(Job, "block", lambda job, rows: seen.append(rows) or block(job, rows))
    for name in ("shaw", "t5", "alibi halves", "nope"):
        seen.clear()
        ran(name, "causal", "reference")
        assert [(rows.start, rows.stop) for rows in seen] == 2 * [(i, min(i + 2, 13)) for i in range(0, 13, 2)], name


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("name", ENCODINGS)
def test_without_gradients_in_float32(name, backend, monkeypatch):
    """Fewer queries than keys, as when a prompt is read in chunks."""
    q, k, v = (sample(2, heads, length, WIDTH, seed=length) for heads, length in ((HEADS, 7), (2, 13), (2, 13)))
    encoding = built(name)
    for options in ({"causal": True}, {"causal": True, "window": 3}, {"causal": False}):
        with torch.no_grad(), monkeypatch.context() as patch:
            expected = attend(q, k, v, encoding=encoding, backend=backend, **options)
            small(patch, rows=2)
            found = attend(q, k, v, encoding=encoding, backend=backend, **options)
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-6)


class Largest(TorchDispatchMode):
    """The numbers in the largest tensor that any operation gives, views and all."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        self.numbers = max(self.numbers, *sizes, 0)
        return result


@pytest.mark.parametrize("name", ["shaw", "transformer-xl", "cope"])
def test_a_relation_makes_nothing_of_all_queries_and_keys_or_of_pairs_and_width(name, monkeypatch):
    small(monkeypatch, rows=4)
    encoding, x, length = built(name), sample(1, 200, DIM).requires_grad_(), 200
    with Largest() as largest:
        attended(encoding, x, positions.arange(length).flip(0)).sum().backward()
    assert largest.numbers <= max(HEADS * length * WIDTH, HEADS * 4 * length)


@pytest.mark.parametrize("name", ["nope", "alibi", "t5", "shaw"])
def test_caps_and_sinks(name, monkeypatch):
    sinks = sample(HEADS, dtype=torch.float64).requires_grad_()
    results = []
    for rows in (64, 2):
        small(monkeypatch, rows)
        x, encoding = sample(2, LENGTH, DIM, dtype=torch.float64).requires_grad_(), built(name).double()
        attended(encoding, x, softcap=2.0, sinks=sinks, key_mask=REAL).square().sum().backward()
        results.append((x.grad, sinks.grad, *(parameter.grad for parameter in encoding.parameters())))
        sinks.grad = None
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["nope", "alibi", "shaw"])
def test_dropout_drops_the_same_weights_backward_as_forward(name, monkeypatch):
    """A block is computed again for its gradient; then v's gradient is of those weights that made the output."""
    small(monkeypatch, rows=2)
    q, k, v = (sample(1, HEADS, LENGTH, WIDTH, seed=seed, dtype=torch.float64) for seed in range(3))
    options = {"causal": True, "encoding": built(name).double(), "dropout_p": 0.4, "backend": "reference"}
    torch.manual_seed(0)
    output = attend(q, k, v.requires_grad_(), **options)
    after = torch.get_rng_state()
    upstream = sample(*output.shape, seed=7, dtype=torch.float64)
    (output * upstream).sum().backward()
    assert torch.equal(torch.get_rng_state(), after), "a backward pass draws no numbers of its own"
    torch.manual_seed(0)
    with torch.no_grad():
        rest = attend(q, k, torch.zeros_like(v), **options)  # the encoding's part of the values
    expected = ((output - rest).detach() * upstream).sum()
    torch.testing.assert_close((v.grad * v.detach()).sum(), expected)  # the output is linear in v


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_decoder_that_trains_in_blocks(name, monkeypatch):
    results = []
    for rows in (64, 3):
        small(monkeypatch, rows)
        model = decoder(built(name), kv_heads=2, window=[None, 5])
        model(tokens(2, LENGTH)).square().mean().backward()
        results.append([parameter.grad for parameter in model.parameters()])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", ["rotary", "alibi", "t5", "shaw"])
def test_blocks_in_low_precision_round_as_one_does(name, monkeypatch):
    encoding, x = built(name).to(torch.bfloat16), sample(2, LENGTH, DIM, dtype=torch.bfloat16)
    with torch.no_grad():
        expected = attended(encoding, x, backend="reference")
        small(monkeypatch, rows=2)
        found = attended(encoding, x, backend="reference")
    unit = torch.finfo(torch.bfloat16).eps
    torch.testing.assert_close(found, expected, rtol=unit, atol=1e-6)  # one rounding apart, at a tie
