import pytest
import torch
from models import recent

from ropewalk import RopewalkError
from ropewalk.checkpoints.load import load
from ropewalk.measure import LanguageModel, token_losses


def test_equals_the_models_own_loss(tiny):
    checkpoint, tokens = load(tiny), torch.randint(0, 250, (3, 40), generator=torch.Generator().manual_seed(0))
    losses = token_losses(LanguageModel(checkpoint.hidden, checkpoint.head), tokens)
    with torch.inference_mode():
        theirs = checkpoint.model(input_ids=tokens, labels=tokens).loss
    assert losses[:, 0].isnan().all()
    assert losses[:, 1:].mean().item() == pytest.approx(theirs.item(), abs=1e-5)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_is_an_error_that_says_where(value):
    model = recent(100)

    def hidden(tokens, positions=None):
        states = model.hidden(tokens)
        states[1, 20, 0] = value
        return states

    with pytest.raises(RopewalkError, match="not a finite number from position 21 on"):
        token_losses(LanguageModel(hidden, model.head), torch.arange(80).reshape(2, 40) % 64)


@pytest.mark.parametrize("chunk", [1, 7, 39, 40, 1000])
def test_chunks_do_not_change_it_and_are_never_exceeded(chunk):
    model, tokens, seen = recent(100), torch.arange(40)[None], []

    def head(states):
        seen.append(states.shape[1])
        return model.head(states)

    losses = token_losses(LanguageModel(model.hidden, head), tokens, chunk=chunk)
    torch.testing.assert_close(losses[0, 1:], 1 / torch.arange(1, 40).float(), rtol=1e-4, atol=0)
    assert max(seen) <= chunk
    assert sum(seen) == 39


@pytest.mark.parametrize(("chunk", "first"), [(7, 1), (7, 20), (100, 39)])
def test_tokens_before_the_first_cost_no_logits(chunk, first):
    model, seen = recent(5), []
    tokens = torch.arange(80).reshape(2, 40) % 64

    def head(states):
        seen.append(states.shape[1])
        return model.head(states)

    losses = token_losses(LanguageModel(model.hidden, head), tokens, chunk=chunk, first=first)
    assert losses[:, :first].isnan().all()
    assert torch.equal(losses[:, first:], token_losses(model, tokens)[:, first:])
    assert sum(seen) == 40 - first
