"""torch.compile: whole graphs, at most two of them for all lengths, and the numbers of eager."""

from collections.abc import Callable, Iterator

import pytest
import torch
from every_encoding import DIM, ENCODINGS, HEADS, WIDTH, attended, built, decoder, sample, tokens
from torch._dynamo.testing import CompileCounterWithBackend

from ropewalk import Rotary
from ropewalk.attention import blocks

LENGTHS = (8, 9, 40, 41)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function: Callable, backend: str = "eager", dynamic: bool | None = None) -> tuple:
    counter = CompileCounterWithBackend(backend)
    return torch.compile(function, fullgraph=True, backend=counter, dynamic=dynamic), counter


@pytest.mark.parametrize("name", ENCODINGS)
def test_attend(name):
    encoding = built(name)
    run, counter = compiled(lambda x: attended(encoding, x))
    with torch.no_grad():
        for length in LENGTHS:
            x = sample(2, length, DIM, seed=length)
            torch.testing.assert_close(run(x), attended(encoding, x), rtol=0, atol=1e-6)
    assert counter.frame_count <= 2


@pytest.mark.parametrize("name", ["learned", "rotary dynamic ntk", "t5", "shaw"])
def test_decoder(name):
    model = decoder(built(name), layers=1)
    run, counter = compiled(model)
    for length in LENGTHS:
        torch.testing.assert_close(run(tokens(2, length)), model(tokens(2, length)), rtol=0, atol=1e-5)
    assert counter.frame_count <= 2


def test_positions_enter_once_however_many_layers_share_the_encoding():
    model = decoder(built("learned"), layers=3)
    run, _ = compiled(model)
    torch.testing.assert_close(run(tokens(2, 9)), model(tokens(2, 9)), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["rotary dynamic ntk", "shaw", "transformer-xl", "cope"])
def test_given_positions_and_a_mask(name):
    """Positions of each row, and whoever is padding: still no look at a value."""
    model = decoder(built(name), layers=1)
    run, counter = compiled(model)
    for length in LENGTHS:
        mask = torch.arange(length) >= torch.tensor([[0], [3]])
        found = run(tokens(2, length), key_mask=mask)
        torch.testing.assert_close(found, model(tokens(2, length), key_mask=mask), rtol=0, atol=1e-5)
    assert counter.frame_count <= 2


@pytest.mark.parametrize("name", ["rotary", "t5", "shaw", "transformer-xl", "cope"])
def test_gradients(name):
    """Through the graphs that a compiler differentiates."""
    model, twin = decoder(built(name), layers=1), decoder(built(name), layers=1)
    run, _ = compiled(twin, "aot_eager")
    model(tokens(2, 9)).square().mean().backward()
    run(tokens(2, 9)).square().mean().backward()
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(other.grad, one.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "backend"),
    [("rotary", "reference"), ("alibi", "auto"), ("t5", "auto"), ("shaw", "auto"), ("cope", "auto")],
)
def test_several_blocks_of_queries(name, backend, monkeypatch):
    """What lengths of thousands bring, forward and backward, at a length that is not the first."""
    encoding = built(name)
    run, _ = compiled(lambda x: attended(encoding, x, backend=backend))
    monkeypatch.setattr(blocks, "LOGITS", 2 * HEADS * 16 * 16)
    monkeypatch.setattr(blocks, "LEAST_ROWS", 2)
    for length in (30, 31):
        results = []
        for function in (run, lambda x: attended(encoding, x, backend=backend)):
            x = sample(2, length, DIM).requires_grad_()
            output = function(x)
            output.square().sum().backward()
            results.append((output.detach(), x.grad))
        torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["rotary dynamic ntk", "alibi", "shaw", "transformer-xl", "cope"])
def test_with_every_number_a_symbol(name):
    """dynamic=True, which makes symbols of options such as softcap too."""
    encoding = built(name)
    run, counter = compiled(lambda x, cap: attended(encoding, x, softcap=cap), dynamic=True)
    with torch.no_grad():
        for length, cap in ((8, 2.0), (41, 3.0)):
            x = sample(2, length, DIM, seed=length)
            torch.testing.assert_close(run(x, cap), attended(encoding, x, softcap=cap), rtol=0, atol=1e-6)
    assert counter.frame_count <= 2


def test_rotary_by_the_default_compiler():
    encoding = built("rotary trailing")
    run, counter = compiled(lambda x: attended(encoding, x), "inductor")
    with torch.no_grad():
        for length in LENGTHS:
            x = sample(2, length, DIM, seed=length)
            torch._dynamo.mark_dynamic(x, 1)
            torch.testing.assert_close(run(x), attended(encoding, x), rtol=0, atol=1e-5)
    assert counter.frame_count == 1


def test_queries_and_keys_at_different_positions():
    rope, q = Rotary(WIDTH), sample(1, HEADS, 6, WIDTH)
    places = {"q_positions": torch.arange(6) + 20, "k_positions": torch.arange(6)}
    run, _ = compiled(lambda q: rope(q, q.flip(-2), **places))
    for one, other in zip(run(q), rope(q, q.flip(-2), **places), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)
