"""state_dicts: round trips, files, and the textbook's sinusoidal table."""

import math

import pytest
import torch
from every_encoding import DIM, ENCODINGS, HEADS, answers, built, decoder, tokens
from torch import Tensor

from ropewalk import RopewalkError, Sinusoidal
from ropewalk.models import Decoder


def plain(encoding) -> Decoder:
    return Decoder(50, DIM, layers=2, heads=HEADS, hidden=DIM, encoding=encoding)


@pytest.mark.parametrize("name", ENCODINGS)
def test_round_trip_through_a_file(name, tmp_path):
    model, other = decoder(built(name)), plain(ENCODINGS[name]())
    expected = model(tokens(2, 41))
    assert not torch.equal(other(tokens(2, 41)), expected)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    other.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True), strict=True)
    assert torch.equal(other(tokens(2, 41)), expected)


@pytest.mark.parametrize("name", ENCODINGS)
def test_what_is_not_trained_is_not_kept(name):
    """Of an encoding, its parameters and nothing else: no table, no slope, no frequency."""
    encoding = built(name)
    assert set(encoding.state_dict()) == {key for key, _ in encoding.named_parameters()}


@pytest.mark.parametrize("name", ENCODINGS)
def test_strict_loading_refuses_keys_of_no_one(name):
    state = ENCODINGS[name]().state_dict() | {"table": torch.zeros(3)}
    with pytest.raises(RuntimeError, match="table"):
        ENCODINGS[name]().load_state_dict(state)


@pytest.mark.parametrize("source", [True, False])
@pytest.mark.parametrize("target", [True, False])
@pytest.mark.parametrize("order", ["interleaved", "sin_cos", "cos_sin"])
def test_a_persistent_table_comes_and_goes(source, target, order, tmp_path):
    model = decoder(Sinusoidal(DIM, order, persistent=source, max_length=300))
    state = model.state_dict()
    assert ("encodings.0.pe" in state) == source
    torch.save(state, tmp_path / "model.pt")
    loaded = torch.load(tmp_path / "model.pt", weights_only=True)
    other = plain(Sinusoidal(DIM, order, persistent=target, max_length=50))
    assert other.load_state_dict(loaded, strict=True) == ([], [])
    assert set(loaded) == set(state), "the caller's dict is as it was"
    assert torch.equal(other(tokens(2, 41)), model(tokens(2, 41)))
    if target:
        assert torch.equal(other.state_dict()["encodings.1.pe"], other.encodings[0].rows(torch.arange(50)))


def textbook(length: int, dim: int, base: float = 10_000.0) -> Tensor:
    """As PyTorch's tutorial makes it, in float32 throughout: [L, D]."""
    table = torch.zeros(length, dim)
    position = torch.arange(0, length, dtype=torch.float).unsqueeze(1)
    divisor = torch.exp(torch.arange(0, dim, 2).float() * (-math.log(base) / dim))
    table[:, 0::2], table[:, 1::2] = torch.sin(position * divisor), torch.cos(position * divisor)
    return table


SHAPES = {
    "[L, D]": lambda table: table,
    "[1, L, D]": lambda table: table[None],
    "[L, 1, D]": lambda table: table[:, None],
}


@pytest.mark.parametrize(("length", "dim"), [(1, 2), (1, 64), (50, 64), (5000, 512), (32768, 64)])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_textbook_table_loads_in_each_of_its_shapes(shape, length, dim):
    module = Sinusoidal(dim)
    before = answers(Sinusoidal(DIM), torch.arange(9))
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        assert module.load_state_dict({"pe": SHAPES[shape](textbook(length, dim)).to(dtype)}) == ([], [])
    after = answers(Sinusoidal(DIM), torch.arange(9))
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("length", [2, 50, 5000])
def test_another_table_is_refused(length, shape):
    plain, cut = textbook(length, DIM), textbook(length, DIM)[:, : DIM // 2]
    shuffled, shifted = torch.cat((plain[:, 0::2], plain[:, 1::2]), dim=1), textbook(length + 1, DIM)[1:]
    wrong = {
        "order": shuffled, "sign": -plain, "scale": plain * 8, "shift": shifted, "base": textbook(length, DIM, 500.0),
        "width": cut, "zeros": torch.zeros(length, DIM), "nan": torch.full((length, DIM), torch.nan),
    }  # fmt: skip
    for why, table in wrong.items():
        for dtype in (torch.float32, torch.bfloat16):
            with pytest.raises(RopewalkError, match="not that of"):
                Sinusoidal(DIM).load_state_dict({"pe": SHAPES[shape](table).to(dtype)})
            if why == "order":
                Sinusoidal(DIM, "sin_cos").load_state_dict({"pe": SHAPES[shape](table).to(dtype)})


def test_a_table_of_a_base_nearly_the_same_is_refused_where_it_would_matter():
    with pytest.raises(RopewalkError, match="not that of"):
        Sinusoidal(DIM).load_state_dict({"pe": textbook(5000, DIM, 10_010.0)})


@pytest.mark.parametrize("table", [torch.zeros(()), torch.zeros(4, 3, DIM), torch.zeros(3, DIM, dtype=torch.int64)])
def test_what_is_no_table_is_refused(table):
    with pytest.raises(RopewalkError, match="not that of"):
        Sinusoidal(DIM).load_state_dict({"pe": table})


def test_a_table_of_the_model_around_is_found():
    """An encoding inside another module, as the tutorial has it: pos_encoder.pe."""
    model = torch.nn.ModuleDict({"pos_encoder": Sinusoidal(DIM), "linear": torch.nn.Linear(2, 2)})
    state = model.state_dict() | {"pos_encoder.pe": textbook(5000, DIM)[:, None]}
    assert model.load_state_dict(state, strict=True) == ([], [])
    with pytest.raises(RopewalkError, match="not that of"):
        model.load_state_dict(state | {"pos_encoder.pe": -textbook(5000, DIM)})
