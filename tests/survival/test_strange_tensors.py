"""Views as inputs, inputs left alone, and sequences of no token or of one."""

import pytest
import torch
from every_encoding import DIM, ENCODINGS, HEADS, WIDTH, attended, built, decoder, sample, tokens
from torch import Tensor

from ropewalk import attend
from ropewalk.models import Cache

BACKENDS = ["auto", "reference"]


def transposed(given: Tensor) -> Tensor:
    return given.transpose(1, 2).contiguous().transpose(1, 2)


def strided(given: Tensor) -> Tensor:
    """Every other number of a wider tensor, every third token of a longer one."""
    wide = torch.full((*given.shape[:2], 3 * given.shape[2], 2 * given.shape[3]), torch.nan)
    wide[:, :, 1::3, 1::2] = given
    return wide[:, :, 1::3, 1::2]


def offset(given: Tensor) -> Tensor:
    """Off the start of its storage by one number, as a packed projection's chunks are."""
    return torch.cat((torch.full((1,), torch.nan), given.flatten()))[1:].view(given.shape)


def chunked(given: Tensor) -> Tensor:
    return torch.cat((torch.zeros_like(given), given, torch.zeros_like(given)), dim=-1).chunk(3, dim=-1)[1]


VIEWS = [transposed, strided, offset, chunked]


def vectors(queries: int = 11, keys: int = 11, kv_heads: int = 2, batch: int = 2) -> list[Tensor]:
    shapes = [(HEADS, queries), (kv_heads, keys), (kv_heads, keys)]
    return [sample(batch, heads, length, WIDTH, seed=seed) for seed, (heads, length) in enumerate(shapes)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ENCODINGS)
def test_views_are_as_good_as_copies(name, view, backend):
    encoding, plain = built(name), vectors()
    for options in ({"causal": True}, {"causal": False, "window": 4}):
        expected = attend(*plain, encoding=encoding, backend=backend, **options)
        found = attend(*map(view, plain), encoding=encoding, backend=backend, **options)
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ENCODINGS)
def test_expanded_views_are_as_good_as_copies(name, backend):
    """One row or one head for all, as views of stride 0; positions and masks too."""
    q, k, v = (given[:1, :1].expand(2, HEADS, -1, -1) for given in vectors(kv_heads=HEADS))
    where, real = torch.arange(22)[None, ::2].expand(2, -1), torch.ones(1, 1).bool().expand(2, 11)
    options = {"causal": True, "encoding": built(name), "backend": backend}
    found = attend(q, k, v, q_positions=where, k_positions=where, key_mask=real, **options)
    where = where.contiguous()
    expected = attend(*(given.contiguous() for given in (q, k, v)), q_positions=where, k_positions=where, **options)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_view_at_the_input(name):
    encoding, x = built(name), sample(2, 11, DIM)
    for view in (x.mT.contiguous().mT, x.transpose(0, 1).contiguous().transpose(0, 1), x[:1].expand(2, -1, -1)):
        assert torch.equal(encoding.embed(view, torch.arange(11)), encoding.embed(view.clone(), torch.arange(11)))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ENCODINGS)
def test_inputs_are_left_alone(name, backend):
    encoding, x = built(name), sample(2, 11, DIM)
    q, k, v = vectors()
    given = {
        "x": x, "q": q, "k": k, "v": v, "q_positions": 2 * torch.arange(11), "k_positions": torch.arange(1, 23, 2),
        "key_mask": torch.arange(11) > torch.tensor([[0], [3]]), "documents": torch.arange(11) // 4,
    }  # fmt: skip
    if backend == "reference":
        given["sinks"] = torch.tensor([1.0, -1.0, 0.0, 2.0])
    before = {key: value.clone() for key, value in given.items()}
    state = {key: value.clone() for key, value in encoding.state_dict().items()}
    for value in (q, k, v):
        value.requires_grad_()
    encoding.embed(given.pop("x"), given["q_positions"])
    attend(causal=True, window=5, encoding=encoding, backend=backend, **given).sum().backward()
    assert all(torch.equal(value, before[key]) for key, value in (given | {"x": x}).items())
    assert all(torch.equal(value, state[key]) for key, value in encoding.state_dict().items())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", ENCODINGS)
def test_no_query(name, causal, backend):
    for keys in (0, 5):
        q, k, v = (given.requires_grad_() for given in vectors(queries=0, keys=keys))
        output = attend(q, k, v, causal=causal, encoding=built(name), backend=backend)
        assert output.shape == (2, HEADS, 0, WIDTH)
        output.sum().backward()
        assert not k.grad.any()
        assert not v.grad.any()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ENCODINGS)
def test_no_key(name, backend):
    """Queries that see nothing get zeros."""
    q, k, v = (given.requires_grad_() for given in vectors(queries=3, keys=0))
    places = {"q_positions": torch.arange(3), "k_positions": torch.arange(0)}
    output = attend(q, k, v, causal=True, encoding=built(name), backend=backend, **places)
    assert torch.equal(output, torch.zeros(2, HEADS, 3, WIDTH))
    output.sum().backward()
    assert not q.grad.any()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ENCODINGS)
def test_no_row(name, backend):
    encoding = built(name)
    for length in (0, 5):
        output = attended(encoding, sample(0, length, DIM), torch.arange(length), backend=backend)
        assert output.shape == (0, HEADS, length, WIDTH)
        rows = torch.arange(length).expand(0, -1)
        assert attended(encoding, sample(0, length, DIM), rows, backend=backend).shape == (0, HEADS, length, WIDTH)


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_decoder_of_nothing(name):
    model = decoder(built(name))
    for batch, length in ((2, 0), (0, 5), (0, 0)):
        said = torch.zeros(batch, length, dtype=torch.int64)
        assert model(said).shape == (batch, length, 50)
        assert model(said, key_mask=torch.ones(batch, length).bool()).shape == (batch, length, 50)


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_step_of_no_token_changes_nothing(name):
    model, said, cache = decoder(built(name)), tokens(2, 7), Cache()
    expected = model(said, length=7)[:, 4:]
    model(said[:, :4], cache=cache, length=7)
    assert model(said[:, :0], cache=cache, length=7).shape == (2, 0, 50)
    torch.testing.assert_close(model(said[:, 4:], cache=cache, length=7), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ENCODINGS)
def test_one_token_is_the_first_of_many(name, backend):
    encoding, x = built(name), sample(2, 5, DIM)
    many = attended(encoding, x, length=5, backend=backend)
    one = attended(encoding, x[:, :1], length=5, backend=backend)
    torch.testing.assert_close(one, many[:, :, :1], rtol=0, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ENCODINGS)
def test_one_query_is_the_last_of_many(name, backend):
    encoding, (q, k, v) = built(name), vectors()
    many = attend(q, k, v, causal=True, encoding=encoding, backend=backend)
    one = attend(q[:, :, -1:], k, v, causal=True, encoding=encoding, backend=backend)
    torch.testing.assert_close(one, many[:, :, -1:], rtol=0, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ENCODINGS)
def test_a_query_whose_keys_are_all_hidden_gets_zeros(name, backend):
    """By the mask in row 1, and by causality: its keys stand after it."""
    q, k, v = (given.requires_grad_() for given in vectors(queries=2, keys=3))
    places = {"q_positions": torch.tensor([0, 9]), "k_positions": torch.tensor([7, 8, 9])}
    real = torch.tensor([[True] * 3, [False] * 3])
    output = attend(q, k, v, causal=True, encoding=built(name), key_mask=real, backend=backend, **places)
    assert not output[1].any()
    assert not output[:, :, 0].any()
    assert output[0, :, 1].abs().amin() > 0
    output.square().sum().backward()
    assert all(given.grad.isfinite().all() for given in (q, k, v))
    assert not q.grad[1].any()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ENCODINGS)
def test_a_query_that_its_encoding_lets_see_nothing_gets_zeros(name, backend):
    """Halves of ALiBi's heads look one way only, and at the end there is nothing that way."""
    q, k, v = (given.requires_grad_() for given in vectors(queries=1, keys=2))
    places = {"q_positions": torch.tensor([0]), "k_positions": torch.tensor([1, 2])}
    output = attend(q, k, v, causal=False, encoding=built(name), backend=backend, **places)
    blind = 2 if name == "alibi halves" else 0
    assert not output[:, :blind].any()
    assert output[:, blind:].abs().amin() > 0
    output.square().sum().backward()
    assert all(given.grad.isfinite().all() for given in (q, k, v))
