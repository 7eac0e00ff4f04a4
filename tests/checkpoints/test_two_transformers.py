"""Run by `make test-4.57` in its own environment: what we write is read there as the newer transformers read it."""

import os
from pathlib import Path

import pytest
import torch
import transformers
from safetensors import safe_open

from ropewalk import from_config
from ropewalk.checkpoints.load import SHIPPED, load
from ropewalk.checkpoints.patch import read_frequencies
from ropewalk.checkpoints.recipes import recipe_for
from ropewalk.checkpoints.verify import logits

METHODS = ("linear", "ntk", "ntk-critical", "yarn", "yarn-paper", "llama3", "mrrope")
pytestmark = pytest.mark.slow


def computed(method: str) -> tuple[Path, dict[str, torch.Tensor], str]:
    """The checkpoint, what the other transformers computed from it, and which one that was."""
    folder = Path(os.environ["READERS"]) / method
    with safe_open(folder / "computed.safetensors", framework="pt") as file:
        return folder, {name: file.get_tensor(name) for name in file.keys()}, file.metadata()["transformers"]  # noqa: SIM118


@pytest.mark.parametrize("method", METHODS)
def test_the_same_frequencies_and_logits(method):
    folder, want, version = computed(method)
    assert version.split(".")[0] != transformers.__version__.split(".")[0], "both sides ran the same transformers"
    checkpoint, tokens = load(folder), want["tokens"]
    assert tokens.shape[1] == 4 * checkpoint.spec.native_length
    (got,) = read_frequencies(checkpoint.model, tokens.shape[1])
    assert torch.equal(got.inv_freq, want["inv_freq"])
    assert got.attention_factor == want["attention_factor"].item()
    with torch.inference_mode():
        error = (logits(checkpoint, tokens) - want["logits"]).abs().max().item()
    print(f"{method}: transformers {version} and {transformers.__version__}, logits differ by at most {error:.3g}")
    assert error <= 1e-5


@pytest.mark.parametrize("method", METHODS)
def test_the_recipe_from_the_original_gives_the_same(method):
    folder, want, _ = computed(method)
    text = recipe_for("transformers-4", from_config(folder), str(folder)).text
    loaded: dict = {}
    exec(text.replace("'ORIGINAL'", repr(str(SHIPPED))), loaded)
    (got,) = read_frequencies(loaded["model"], want["tokens"].shape[1])
    assert torch.equal(got.inv_freq, want["inv_freq"])
    assert got.attention_factor == want["attention_factor"].item()
    assert loaded["model"].config.max_position_embeddings == want["tokens"].shape[1]
