"""The small Transformer: any encoding, mixed by layer, and other people's weights."""

import json

import pytest
import torch

from ropewalk import ALiBi, Learned, NoPE, RopewalkError, Rotary, Sinusoidal, T5Bias, models, positions
from ropewalk.checkpoints.load import SHIPPED, load
from ropewalk.models import Cache, Decoder

TOKENS = torch.randint(256, (2, 300), generator=torch.Generator().manual_seed(0))


def small(encoding, **options) -> Decoder:
    torch.manual_seed(0)
    return Decoder(50, 32, layers=4, heads=2, encoding=encoding, **options)


def test_the_shipped_model_gives_the_logits_of_transformers():
    ours, theirs = models.load(SHIPPED, numerics="float32"), load(SHIPPED).model
    with torch.inference_mode():
        expected = theirs(TOKENS).logits
        torch.testing.assert_close(ours(TOKENS), expected, rtol=0, atol=2e-5)
        cache = Cache()
        parts = [ours(part, cache=cache) for part in TOKENS.split([250, 1, 1, 48], dim=1)]
    torch.testing.assert_close(torch.cat(parts, 1), expected, rtol=0, atol=5e-5)


def test_its_gradients_are_those_of_transformers():
    ours, theirs = models.load(SHIPPED, numerics="float32"), load(SHIPPED).model
    for logits in (ours(TOKENS[:, :40]), theirs(TOKENS[:, :40]).logits):
        logits.logsumexp(-1).sum().backward()
    pairs = {
        "embedding.weight": "model.embed_tokens.weight", "head.weight": "lm_head.weight",
        "blocks.0.attention.q.weight": "model.layers.0.self_attn.q_proj.weight",
        "blocks.1.down.weight": "model.layers.1.mlp.down_proj.weight",
    }  # fmt: skip
    for mine, other in pairs.items():
        found, expected = ours.get_parameter(mine).grad, theirs.get_parameter(other).grad
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-5 * expected.abs().max().item())


def test_a_left_padded_batch_of_the_shipped_model():
    ours, theirs = models.load(SHIPPED, numerics="float32"), load(SHIPPED).model
    mask = torch.ones(2, 30, dtype=torch.int64)
    mask[0, :11] = 0
    with torch.inference_mode():
        expected = theirs(TOKENS[:, :30], attention_mask=mask, position_ids=positions.from_attention_mask(mask)).logits
        found = ours(TOKENS[:, :30], key_mask=mask)
    torch.testing.assert_close(found[mask.bool()], expected[mask.bool()], rtol=0, atol=5e-5)


def test_a_tied_checkpoint(tiny, tmp_path):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = json.loads((tiny / "config.json").read_text()) | {"tie_word_embeddings": True}
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(**{k: v for k, v in config.items() if k not in ("model_type", "rope_theta")}))
    model.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    theirs = load(tmp_path).model
    with torch.inference_mode():
        torch.testing.assert_close(models.load(tmp_path)(TOKENS), theirs(TOKENS).logits, rtol=0, atol=2e-5)


def test_a_checkpoint_that_is_no_llama_is_refused_by_name(tmp_path, tiny):
    from safetensors.torch import load_file, save_file

    weights = load_file(tiny / "model.safetensors")
    weights["model.layers.0.self_attn.q_proj.bias"] = torch.zeros(32)
    save_file(weights, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((tiny / "config.json").read_text())
    with pytest.raises(RopewalkError, match=r"blocks\.0\.attention\.q\.bias"):
        models.load(tmp_path)


def test_layers_may_differ():
    """Global and local bases with their windows, and no positions every fourth layer."""
    local, everywhere = Rotary(16), Rotary(16, base=1e6)
    mixed = small([local, local, NoPE(), everywhere], window=[8, 8, None, None])
    alike = small(local)
    tokens = TOKENS[:, :40] % 50
    assert not torch.allclose(mixed(tokens), alike(tokens), atol=1e-6)
    moved = tokens.clone()
    moved[:, 0] = (moved[:, 0] + 1) % 50
    near = small(local, window=8)
    assert torch.equal(near(tokens)[:, 4 * 7 + 1 :], near(moved)[:, 4 * 7 + 1 :])  # beyond four windows
    assert not torch.equal(mixed(tokens)[:, -1], mixed(moved)[:, -1])


def test_one_object_serves_all_layers_with_one_set_of_parameters():
    table = T5Bias(2)
    assert sum(p.numel() for p in small(table).encodings.parameters()) == table.weight.numel()
    assert (
        sum(p.numel() for p in small([T5Bias(2) for _ in range(4)]).encodings.parameters()) == 4 * table.weight.numel()
    )


def test_the_input_door_is_asked_once():
    tokens = TOKENS[:, :5] % 50
    once, shared = small([Sinusoidal(32), NoPE(), NoPE(), NoPE()]), small(Sinusoidal(32))
    assert torch.equal(once(tokens), shared(tokens))


def test_a_cache_continues_where_positions_were_given():
    model, cache, tokens = small(ALiBi(2)), Cache(), TOKENS[:, :8] % 50
    jumped = torch.tensor([0, 1, 2, 3, 100, 101, 102, 103])
    parts = [model(tokens[:, :4], cache=cache), model(tokens[:, 4:], jumped[4:], cache=cache)]
    torch.testing.assert_close(torch.cat(parts, 1), model(tokens, jumped), rtol=0, atol=2e-5)
    with pytest.raises(RopewalkError, match="positions of their own"):
        model(tokens[:, :1], cache=cache)


def test_a_pass_that_fails_midway_leaves_the_cache_as_it_was(monkeypatch):
    model, cache, tokens = small(ALiBi(2)), Cache(), TOKENS[:, :8] % 50
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(model.blocks[2], "forward", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                model(tokens[:, :5], torch.arange(5), cache=cache)
    assert cache.length == 0
    parts = [model(part, cache=cache) for part in tokens.split(4, dim=1)]
    torch.testing.assert_close(torch.cat(parts, 1), model(tokens), rtol=0, atol=2e-5)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: small([NoPE(), NoPE()]), "2 of encoding for 4 layers"),
    (lambda: small(NoPE(), window=[1]), "1 of window for 4 layers"),
    (lambda: small(NoPE())(TOKENS % 50, documents=torch.zeros(300).long()), "documents were given without positions"),
    (lambda: small("alibi"), "4 layers|no encoding"),
    (lambda: small(NoPE)(TOKENS % 50), "no encoding"),
    (lambda: small(NoPE())(TOKENS % 50, key_mask=torch.ones(2, 9).bool()), "0 cached and 300 new tokens"),
    (lambda: small(Learned(8, 32))(TOKENS % 50), "position 299 has no row"),
])  # fmt: skip
def test_refusals(call, message):
    with pytest.raises(RopewalkError, match=message):
        call()
