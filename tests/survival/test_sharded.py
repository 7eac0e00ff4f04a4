"""A Decoder sharded by FSDP2 over two processes computes what it computes in one."""

from pathlib import Path

import pytest
import torch
from every_encoding import built, decoder, tokens
from sharded import WORLD, Results, loss, work

NAMES = ["t5", "shaw", "fire", "rotary dynamic ntk", "learned"]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory) -> list[Results]:
    folder: Path = tmp_path_factory.mktemp("sharded")
    torch.multiprocessing.spawn(work, args=(str(folder), NAMES), nprocs=WORLD)
    return [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(WORLD)]


@pytest.mark.parametrize("rows", [64, 3])
@pytest.mark.parametrize("name", NAMES)
def test_logits_and_gradients_are_those_of_one_process(name, rows, ranks):
    """Queries at once and in blocks, which look at parameters again in the backward pass."""
    model = decoder(built(name))
    logits = model(tokens(2 * WORLD, 12))
    loss(logits).backward()
    ranks = [rank[f"{name} by {rows}"] for rank in ranks]
    found = torch.cat([rank["logits"] for rank in ranks])
    torch.testing.assert_close(found, logits.detach(), rtol=0, atol=1e-5)
    for rank in ranks:
        gradients = {key: value for key, value in rank.items() if key != "logits"}
        assert set(gradients) == {key for key, _ in model.named_parameters()}
        for key, parameter in model.named_parameters():
            assert parameter.grad.abs().max() > 0, key
            torch.testing.assert_close(gradients[key], parameter.grad, rtol=1e-4, atol=1e-6, msg=key)
