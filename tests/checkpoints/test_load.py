"""Loading: offline, safetensors only, and the two halves of a model make its own logits."""

import json
import shutil

import pytest
import torch

from ropewalk import RopewalkError
from ropewalk._errors import VerificationError
from ropewalk.checkpoints.load import load
from ropewalk.checkpoints.tokenizer import Tokenizer


@pytest.fixture
def copy(tiny, tmp_path):
    return shutil.copytree(tiny, tmp_path / "copy")


def test_hidden_then_head_are_the_logits(tiny):
    checkpoint, tokens = load(tiny), torch.arange(10)[None]
    with torch.inference_mode():
        ours = checkpoint.head(checkpoint.hidden(tokens))
        theirs = checkpoint.model(input_ids=tokens).logits
    assert torch.equal(ours, theirs)


def test_a_jump_in_the_positions_is_no_border_between_documents(tiny):
    """transformers cuts attention at a jump unless it is given a mask."""
    checkpoint, tokens = load(tiny), torch.arange(12)[None]
    positions = torch.arange(12)[None].clone()
    positions[:, 6:] += 30
    other = tokens.clone()
    other[0, 0] = 99
    with torch.inference_mode():
        last, changed = (checkpoint.hidden(t, positions)[0, -1] for t in (tokens, other))
    assert not torch.equal(last, changed)


def test_text_is_encoded_without_special_tokens(tiny):
    assert Tokenizer.load(tiny).encode("Hé").tolist() == [72, 195, 169]


def test_truncated_weights(copy):
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(RopewalkError, match=r"model.safetensors: damaged or cut short"):
        load(copy)


def test_weights_that_are_a_pickle_are_not_read(copy):
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    with pytest.raises(RopewalkError, match=r"no \*.safetensors file"):
        load(copy)


def test_the_config_is_refused_before_weights_are_read(copy):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "rope_scaling": {"rope_type": "linear", "factr": 2.0}}))
    (copy / "model.safetensors").write_bytes(b"")
    with pytest.raises(RopewalkError, match="unknown key 'factr'"):
        load(copy)


def test_a_missing_shard(copy):
    (copy / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"lm_head.weight": "model-00002-of-00002.safetensors"}})
    )
    (copy / "model.safetensors").rename(copy / "model-00001-of-00002.safetensors")
    with pytest.raises(RopewalkError, match="model-00002-of-00002"):
        load(copy)


@pytest.mark.parametrize("content", ["{", "[]", '{"weight_map": 3}'])
def test_a_damaged_index(copy, content):
    (copy / "model.safetensors.index.json").write_text(content)
    with pytest.raises(RopewalkError, match="not an index"):
        load(copy)


def test_weights_that_are_not_finite(copy):
    from safetensors.torch import load_file, save_file

    weights = load_file(copy / "model.safetensors")
    weights["lm_head.weight"][0, 0] = float("nan")
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(RopewalkError, match="not finite"):
        load(copy)


def test_a_head_that_is_not_all_of_the_way_to_the_logits(tiny, monkeypatch):
    """Some models scale or cap their logits after the output layer; their losses would be wrong in silence."""
    from transformers import LlamaForCausalLM

    forward = LlamaForCausalLM.forward

    def capped(self, *arguments, **more):
        output = forward(self, *arguments, **more)
        output.logits = 0.5 * output.logits
        return output

    monkeypatch.setattr(LlamaForCausalLM, "forward", capped)
    with pytest.raises(VerificationError, match="not the output layer of its hidden states"):
        load(tiny)


def test_missing_tensors_are_no_model(copy):
    from safetensors.torch import load_file, save_file

    weights = load_file(copy / "model.safetensors")
    del weights["model.layers.1.self_attn.q_proj.weight"]
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(RopewalkError, match="q_proj"):
        load(copy)
