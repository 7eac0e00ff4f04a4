"""The meta device, other default devices, deepcopy and pickle."""

import copy
import pickle

import pytest
import torch
from every_encoding import DIM, ENCODINGS, HEADS, answers, built, decoder, forget_tables, tokens

from ropewalk.models import Decoder


def plain(name: str) -> Decoder:
    """Of the shape of `decoder`, its parameters as they start."""
    return Decoder(50, DIM, layers=2, heads=HEADS, hidden=DIM, encoding=ENCODINGS[name]())


def on_meta(name: str) -> Decoder:
    forget_tables()  # so that they are found with "meta" as the default device, if at all
    with torch.device("meta"):
        model = plain(name)
    assert all(parameter.is_meta for parameter in model.parameters())
    return model


def pickled(model: Decoder) -> Decoder:
    return pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("name", ENCODINGS)
def test_built_on_meta_then_emptied_and_loaded(name):
    fresh = decoder(built(name))
    model = on_meta(name).to_empty(device="cpu")
    for parameter in model.parameters():
        parameter.data.fill_(torch.nan)  # what memory may hold
    model.load_state_dict(fresh.state_dict(), strict=True)
    assert torch.equal(model(tokens(2, 41)), fresh(tokens(2, 41)))


@pytest.mark.parametrize("name", ENCODINGS)
def test_built_on_meta_then_assigned(name):
    fresh, model = decoder(built(name)), on_meta(name)
    model.load_state_dict(fresh.state_dict(), strict=True, assign=True)
    assert torch.equal(model(tokens(2, 41)), fresh(tokens(2, 41)))


@pytest.mark.parametrize("name", ENCODINGS)
def test_an_encoding_alone_built_on_meta(name):
    forget_tables()
    with torch.device("meta"):
        encoding = ENCODINGS[name]()
    encoding.to_empty(device="cpu").load_state_dict(built(name).state_dict(), strict=True)
    where = 80 + torch.arange(9)
    for found, expected in zip(answers(encoding, where), answers(built(name), where), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("name", ENCODINGS)
def test_run_on_meta_gives_shapes(name):
    model, said = on_meta(name), torch.zeros(2, 9, dtype=torch.int64, device="meta")
    logits = model(said, key_mask=torch.ones(2, 9, dtype=torch.bool, device="meta"))
    assert logits.is_meta
    assert logits.shape == (2, 9, 50)


@pytest.mark.parametrize("name", ENCODINGS)
def test_called_while_another_device_is_the_default(name):
    model, said = decoder(built(name)), tokens(2, 20)
    mask = torch.arange(20) >= torch.tensor([[0], [5]])
    expected = model(said), model(said, key_mask=mask)
    forget_tables()
    with torch.device("meta"):
        found = model(said), model(said, key_mask=mask)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    "how", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))], ids=["deep", "pickle"]
)
@pytest.mark.parametrize("name", ENCODINGS)
def test_copies_say_the_same_and_are_their_own(name, how):
    model = decoder(built(name))
    expected = model(tokens(2, 41)).detach()
    twin = how(model)
    assert torch.equal(twin(tokens(2, 41)), expected)
    assert twin.encodings[0] is twin.encodings[1], "one object shared by all layers stays one"
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.mul_(-3.0)
    assert torch.equal(model(tokens(2, 41)), expected)
    assert not torch.equal(twin(tokens(2, 41)), expected)


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_copy_taken_after_use_and_after_a_backward_pass(name):
    model = decoder(built(name))
    model(tokens(2, 9)).square().sum().backward()
    for twin in (copy.deepcopy(model), pickled(model)):
        assert torch.equal(twin(tokens(2, 41)), model(tokens(2, 41)))
