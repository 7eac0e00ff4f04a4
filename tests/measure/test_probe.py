import pytest
import torch

from ropewalk import RopewalkError
from ropewalk.checkpoints.load import load
from ropewalk.measure import LanguageModel, gapped_loss, token_losses

TOKENS = torch.randint(0, 250, (2, 60), generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def model(tiny):
    checkpoint = load(tiny)
    return LanguageModel(checkpoint.hidden, checkpoint.head)


def test_without_a_gap_it_is_the_plain_loss(model):
    want = token_losses(model, TOKENS)[:, 20 + 16 :].mean()
    assert gapped_loss(model, TOKENS, 60, head=20) == pytest.approx(want.item(), abs=1e-6)


def test_the_gap_is_in_the_positions_alone():
    seen = []

    def hidden(tokens, positions=None):
        seen.append(positions)
        return torch.zeros(*tokens.shape, 250)

    gapped_loss(LanguageModel(hidden, lambda s: s), TOKENS, 1000, head=20)
    want = torch.cat((torch.arange(20), torch.arange(960, 1000)))
    assert torch.equal(seen[0], want.expand(2, 60))


def test_the_gap_matters_to_a_rotary_model(model):
    assert gapped_loss(model, TOKENS, 1000, head=20) != gapped_loss(model, TOKENS, 60, head=20)


@pytest.mark.parametrize(("span", "head"), [(59, 20), (60, 44), (60, 100)])
def test_refusals(model, span, head):
    with pytest.raises(RopewalkError, match=f"span={span}, 60 tokens, head={head}"):
        gapped_loss(model, TOKENS, span, head=head)


def test_it_is_the_mean_whatever_passes_they_are_in(model, monkeypatch):
    monkeypatch.setattr("ropewalk.measure.losses.TOKENS_AT_ONCE", 60)
    alone = [gapped_loss(model, TOKENS[i : i + 1], 1000, head=20) for i in range(2)]
    assert gapped_loss(model, TOKENS, 1000, head=20) == pytest.approx(sum(alone) / 2, abs=1e-6)
