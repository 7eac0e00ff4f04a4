"""The kernel inside loaded transformers models: the same logits, in one model alone, and undone without a trace."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from ropewalk import RopewalkError, patch
from ropewalk._errors import VerificationError

SMALL = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
         "eos_token_id": 2}  # fmt: skip
HEADS = {kind: {"head_dim": 8} for kind in ("qwen3", "gemma", "gemma2", "glm")}
KINDS = ("llama", "mistral", "qwen2", *HEADS, "phi3", "starcoder2", "olmo", "cohere", "smollm3", "granite", "glm")


def made(kind, **more):
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **{**SMALL, **HEADS.get(kind, {}), **more})
    return AutoModelForCausalLM.from_config(config).eval()


def logits(model, tokens=None):
    tokens = torch.arange(3, 40)[None] if tokens is None else tokens
    with torch.no_grad():
        return model(tokens).logits


@pytest.mark.parametrize("kind", KINDS)
def test_the_logits_stay_and_so_does_what_a_cache_writes(kind):
    model = made(kind)
    before = logits(model)
    text = model.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=8, do_sample=False)
    with patch(model) as patched:
        assert len(patched.modules) == 2
        assert torch.allclose(logits(model), before, atol=1e-5)
        assert torch.equal(model.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=8, do_sample=False), text)
    assert torch.equal(logits(model), before)
    assert not any("forward" in vars(module) for module in model.modules())


def test_our_rotation_is_the_one_that_runs(monkeypatch):
    from ropewalk.checkpoints import pairing

    model, other, called = made("llama"), made("llama"), []
    monkeypatch.setattr(pairing, "rotate", lambda *a, _run=pairing.rotate, **k: called.append(1) or _run(*a, **k))
    patched = patch(model)
    called.clear()
    logits(other)
    assert not called
    logits(model)
    assert len(called) == 2
    patched.undo()
    patched.undo()
    logits(model)
    assert len(called) == 2


def test_a_scaling_stays_in_force():
    model = made("llama", rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16})
    before = logits(model)
    assert not torch.allclose(before, logits(made("llama")), atol=1e-4)
    with patch(model):
        assert torch.allclose(logits(model), before, atol=1e-5)


def test_gradients_flow_through_it():
    model = made("llama")
    found = []
    for patched in (False, True):
        handle = patch(model) if patched else None
        model.zero_grad()
        model(torch.arange(3, 20)[None]).logits.square().mean().backward()
        found.append(model.model.layers[0].self_attn.q_proj.weight.grad.clone())
        if handle:
            handle.undo()
    assert torch.allclose(*found, atol=1e-6)


def test_a_patched_model_compiles():
    model = made("llama")
    before = logits(model)
    with patch(model):
        assert torch.allclose(logits(torch.compile(model, backend="aot_eager")), before, atol=1e-5)


def test_a_tower_that_leaves_some_tokens_alone_is_refused():
    from transformers import AutoModel

    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    try:
        model = AutoModel.from_config(AutoConfig.for_model("dinov3_vit", image_size=32, patch_size=16, **sizes))
    except ValueError:
        pytest.skip("this transformers has no DINOv3")
    with pytest.raises(VerificationError, match="not q, k, cos and sin"):
        patch(model)


def test_a_patched_model_is_not_patched_twice():
    model = made("llama")
    with patch(model), pytest.raises(VerificationError, match="patched already"):
        patch(model)


def test_a_model_that_does_not_rotate_is_refused():
    with pytest.raises(VerificationError, match="calls apply_rotary_pos_emb"):
        patch(torch.nn.Linear(2, 2))


def test_a_rotation_of_another_kind_is_refused(monkeypatch):
    from transformers.models.llama import modeling_llama

    model = made("llama")
    monkeypatch.setattr(modeling_llama, "apply_rotary_pos_emb", lambda q, k, cos, sin, unsqueeze_dim=1: (q * 2, k))
    with pytest.raises(RopewalkError, match="neither halves nor neighbours"):
        patch(model)
    assert not any("forward" in vars(module) for module in model.modules())
