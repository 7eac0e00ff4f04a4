"""However the tokens arrive, the answer is the same: one pass, chunks, one by one, padded, packed, beside others."""

import itertools

import pytest
import torch
from every_encoding import ENCODINGS, decoder
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk import positions
from ropewalk.models import Cache, Decoder

TOKENS = torch.randint(50, (1, 12), generator=torch.Generator().manual_seed(5))
OTHERS = torch.randint(50, (1, 12), generator=torch.Generator().manual_seed(6))

names = pytest.mark.parametrize("name", ENCODINGS)
windows = st.sampled_from([None, 1, 3, 8])
few = settings(max_examples=8)


def build(name: str, window: int | None = None, kv_heads: int = 2) -> Decoder:
    """In float64, so that only a wrong position can differ."""
    return decoder(ENCODINGS[name](), window=window, kv_heads=kv_heads).double()


def with_gradient(model: Decoder, logits: torch.Tensor) -> list[torch.Tensor]:
    """Logits [1, T, vocab] and the gradient that one fixed loss of them sends to every parameter."""
    loss = (logits * torch.randn(logits.shape, generator=torch.Generator().manual_seed(9))).sum()
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True, materialize_grads=True)
    return [logits.detach(), *gradients]


def assert_same(model: Decoder, one: torch.Tensor, other: torch.Tensor) -> None:
    for a, b in zip(with_gradient(model, one), with_gradient(model, other), strict=True):
        assert_close(a, b)


def assert_close(one: torch.Tensor, other: torch.Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=tolerance * max(1.0, other.abs().max().item()))


def in_chunks(model: Decoder, tokens: torch.Tensor, borders: list[int], **options: object) -> torch.Tensor:
    cache = Cache()
    return torch.cat([model(tokens[:, a:b], cache=cache, **options) for a, b in itertools.pairwise(borders)], dim=1)


@names
@few
@given(cuts=st.lists(st.integers(1, 11), max_size=3), window=windows, kv_heads=st.sampled_from([1, 2, 4]))
def test_any_chunking(name, cuts, window, kv_heads):
    model = build(name, window, kv_heads)
    borders = [0, *sorted(set(cuts)), 12]
    assert_same(model, in_chunks(model, TOKENS, borders, length=12), model(TOKENS, length=12))


@names
@pytest.mark.parametrize("window", [None, 4])
def test_token_by_token(name, window):
    model = build(name, window)
    assert_same(model, in_chunks(model, TOKENS, list(range(13)), length=12), model(TOKENS))


@names
@few
@given(short=st.integers(1, 11), window=windows)
def test_left_padding_and_batch_mates(name, short, window):
    """The short row stands at the right end of a batch, under a mask, beside a full one."""
    model = build(name, window)
    pad = torch.cat((OTHERS[:, : 12 - short], TOKENS[:, :short]), dim=1)
    mask = torch.tensor([[0] * (12 - short) + [1] * short, [1] * 12])
    lengths = torch.tensor([short, 12])
    both = model(torch.cat((pad, OTHERS)), key_mask=mask, length=lengths)
    assert both.isfinite().all()
    assert_same(model, both[:1, 12 - short :], model(TOKENS[:, :short]))
    assert_same(model, both[1:], model(OTHERS))


@names
@few
@given(prompt=st.integers(1, 10), short=st.integers(1, 10))
def test_decoding_a_padded_batch(name, prompt, short):
    model, short = build(name), min(prompt, short)
    rows = torch.cat((torch.cat((OTHERS[:, : prompt - short], TOKENS[:, :short]), 1), OTHERS[:, :prompt]))
    mask = torch.tensor([[0] * (prompt - short) + [1] * short, [1] * prompt])
    cache, after = Cache(), torch.cat((TOKENS[:, short : short + 2], OTHERS[:, prompt : prompt + 2]))
    length = torch.tensor([short + 2, prompt + 2])
    model(rows, key_mask=mask, cache=cache, length=length)
    for step in range(2):
        mask = torch.cat((mask, torch.ones(2, 1, dtype=mask.dtype)), dim=1)
        logits = model(after[:, step : step + 1], key_mask=mask, cache=cache, length=length)
        alone = (
            model(TOKENS[:, : short + 1 + step], length=short + 2)[0, -1],
            model(OTHERS[:, : prompt + 1 + step], length=prompt + 2)[0, -1],
        )
        assert_close(logits[:, 0], torch.stack(alone))


@names
@few
@given(first=st.integers(1, 11), window=windows)
def test_packed_documents(name, first, window):
    model = build(name, window)
    packed = torch.cat((TOKENS[:, :first], OTHERS), dim=1)
    cu = torch.tensor([0, first, first + 12])
    where = {"positions": positions.from_cu_seqlens(cu), "documents": positions.documents(cu)}
    both = model(packed, **where, length=12)
    assert_same(model, both[:, first:], model(OTHERS, length=12))
    assert_same(model, both[:, :first], model(TOKENS[:, :first], length=12))


@names
@few
@given(first=st.integers(1, 11), cut=st.integers(1, 20))
def test_packed_documents_in_chunks(name, first, cut):
    model, tokens = build(name), torch.cat((TOKENS[:, :first], OTHERS), dim=1)
    cu = torch.tensor([0, first, first + 12])
    where, numbers, cut = positions.from_cu_seqlens(cu), positions.documents(cu), min(cut, first + 11)
    cache = Cache()
    parts = [
        model(tokens[:, a:b], where[a:b], documents=numbers[:b], cache=cache, length=12)
        for a, b in ((0, cut), (cut, first + 12))
    ]
    assert_close(torch.cat(parts, 1), model(tokens, where, documents=numbers, length=12))


@names
def test_the_order_in_which_keys_are_kept_does_not_matter(name):
    """Causal goes by positions: shuffled tokens at shuffled positions give the shuffled answer."""
    model, order = build(name, window=5), torch.randperm(12, generator=torch.Generator().manual_seed(1))
    assert_close(model(TOKENS[:, order], order), model(TOKENS)[:, order])


@names
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.bfloat16, 0.05)])
def test_lower_precision_differs_by_its_rounding_alone(name, dtype, tolerance):
    """Chunks against one pass, and both against float64."""
    model, exact = build(name).to(dtype), build(name)(TOKENS, length=12)
    whole, parts = model(TOKENS, length=12), in_chunks(model, TOKENS, [0, 5, 6, 12], length=12)
    assert whole.dtype == dtype
    assert_close(parts.double(), whole.double(), tolerance)
    if dtype == torch.float32:
        assert_close(whole.double(), exact, tolerance)


@pytest.mark.parametrize("name", [name for name in ENCODINGS if name != "nope"])
def test_a_cache_that_is_off_by_one_would_show(name):
    """What the laws above compare does differ when one token stands in another's place."""
    model = build(name)
    assert (model(TOKENS, torch.arange(12).clamp(max=10)) - model(TOKENS)).abs().max() > 1e-3
