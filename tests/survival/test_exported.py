"""torch.export: a Decoder whose length is left open says at other lengths what it says in eager."""

from collections.abc import Iterator

import pytest
import torch
from every_encoding import ENCODINGS, built, decoder, tokens
from torch.export import Dim, export

from ropewalk import NoPE


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def exported(model: torch.nn.Module, longest: int, strict: bool = False) -> torch.nn.Module:
    shapes = {"tokens": {1: Dim("length", min=2, max=longest)}}
    return export(model, (tokens(2, 12),), dynamic_shapes=shapes, strict=strict).module()


@pytest.mark.parametrize("name", ENCODINGS)
def test_another_length(name):
    model = decoder(built(name), layers=1)
    program = exported(model, longest=120)
    for length in (12, 13, 2, 100):
        torch.testing.assert_close(program(tokens(2, length)), model(tokens(2, length)), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "strict"), [("sinusoidal sin_cos", False), ("learned", False), ("learned", True), ("t5", True)]
)
def test_layers_that_share_an_encoding(name, strict):
    """Position enters at the input once, not once a layer."""
    model = decoder(built(name), layers=2)
    program = exported(model, longest=120, strict=strict)
    if name != "t5":
        once = decoder([built(name), NoPE()])
        assert torch.equal(model(tokens(2, 12)), once(tokens(2, 12)))
    for length in (12, 100):
        torch.testing.assert_close(program(tokens(2, length)), model(tokens(2, length)), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["rotary dynamic ntk", "t5", "shaw", "transformer-xl", "cope"])
def test_lengths_of_thousands(name):
    """Those at which eager takes queries in blocks."""
    model = decoder(built(name), layers=1).eval()
    program = exported(model, longest=8192)
    with torch.no_grad():
        for length in (12, 100):
            torch.testing.assert_close(program(tokens(2, length)), model(tokens(2, length)), rtol=0, atol=1e-5)


def test_a_length_at_which_eager_takes_blocks():
    model = decoder(built("alibi"), layers=1).eval()
    program, said = exported(model, longest=8192), tokens(2, 1100)
    with torch.no_grad():
        torch.testing.assert_close(program(said), model(said), rtol=0, atol=1e-5)


def test_through_a_file(tmp_path):
    model = decoder(built("rotary yarn"), layers=1)
    shapes = {"tokens": {1: Dim("length", min=2, max=120)}}
    torch.export.save(export(model, (tokens(2, 12),), dynamic_shapes=shapes), tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2").module()
    torch.testing.assert_close(program(tokens(2, 41)), model(tokens(2, 41)), rtol=0, atol=1e-5)
