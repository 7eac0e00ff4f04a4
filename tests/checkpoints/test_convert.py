"""Checkpoints laid out for the other pairing: bits kept, nothing computed otherwise, and whoever reads them knows."""

import json
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import nn

from ropewalk import RopewalkError, convert, detect_layout, from_config, models
from ropewalk._errors import VerificationError
from ropewalk.checkpoints.convert import files, proof
from ropewalk.checkpoints.convert.families import FAMILIES
from ropewalk.checkpoints.convert.order import order
from ropewalk.checkpoints.load import SHIPPED, load

SMALL = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
         "eos_token_id": 2}  # fmt: skip
EIGHT = {"head_dim": 8}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
MLA = {"q_lora_rank": 12, "kv_lora_rank": 8, "qk_nope_head_dim": 6, "qk_rope_head_dim": 8, "v_head_dim": 8,
       "n_routed_experts": 4, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 2,
       "moe_intermediate_size": 16, "num_key_value_heads": 4, "num_local_experts": 4}  # fmt: skip
VARIANTS = {
    "llama": {"attention_bias": True, "tie_word_embeddings": True},
    "mistral": {"head_dim": 12},
    "mixtral": {"num_local_experts": 2},
    "qwen2_moe": {**EXPERTS, "shared_expert_intermediate_size": 16},
    "qwen3_moe": {**EIGHT, **EXPERTS},
    "glm": {**EIGHT, "attention_bias": True},
    "cohere": {"use_qk_norm": True},
    "phi": {"qk_layernorm": True},
    "stablelm": {"qk_layernorm": True, "partial_rotary_factor": 0.5},
    "phi3": {"partial_rotary_factor": 0.5},
    "gpt_neox": {"rotary_pct": 0.5},
    "olmo": {"clip_qkv": 0.5},
    "youtu": {**MLA, "rope_interleave": True},
    **dict.fromkeys(("deepseek_v3", "glm4_moe_lite"), MLA),
    **dict.fromkeys(("ministral", "qwen3", "gemma", "gemma2", "gemma3_text", "helium", "ernie4_5", "glm4"), EIGHT),
}


SINCE_5 = ("youtu", "glm4_moe_lite", "stablelm")  # the last stumbles over norms of queries and keys


def made(folder, kind, **more):
    """A model of `kind` whose every number is random, norms and biases too, saved in `folder`."""
    from transformers import AutoConfig, AutoModelForCausalLM

    if transformers.__version__.startswith("4.") and kind in SINCE_5:
        pytest.skip(f"this transformers cannot build {kind}")
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **{**SMALL, **VARIANTS.get(kind, {}), **more})
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return folder


def other(layout):
    return {"half": "interleaved", "interleaved": "half"}[layout]


def weights(folder):
    return {name: tensor for file in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(file).items()}


def config(folder):
    return json.loads((folder / "config.json").read_text())


def same_bits(a, b):
    assert a.keys() == b.keys()
    return all(a[name].dtype == b[name].dtype and torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("kind", FAMILIES)
def test_every_family_goes_there_with_the_same_logits_and_comes_back_bit_for_bit(kind, tmp_path):
    start = made(tmp_path / "start", kind)
    native = from_config(start).main.layout
    done = convert(start, layout=other(native), out=tmp_path / "there")
    assert done.scores_error < 1e-5
    assert done.logits_error < 1e-5, done.not_run
    assert done.misread_error > 1e-3
    there = from_config(tmp_path / "there")
    assert {layer.layout for layer in there.layers if layer.rotates} == {other(native)}
    assert there.turned == (None if there.rule.switch else other(native))
    assert bool(done.misread_by) == (there.turned is not None)
    assert not same_bits(weights(tmp_path / "there"), weights(start))
    back = convert(tmp_path / "there", layout=native, out=tmp_path / "back")
    assert not back.misread_by
    assert same_bits(weights(tmp_path / "back"), weights(start))
    assert config(tmp_path / "back") == config(start)


@pytest.fixture(scope="module")
def grouped(tmp_path_factory):
    """A Llama with grouped heads and biases, and the same for interleaved pairs."""
    folder = tmp_path_factory.mktemp("grouped")
    made(folder / "half", "llama", tie_word_embeddings=False)
    convert(folder / "half", layout="interleaved", out=folder / "interleaved")
    return folder


# Other people's permutations, on the same weights.


def meta_to_hf(w, heads):
    """`permute` of transformers' convert_llama_weights_to_hf.py."""
    rows, columns = w.shape
    return w.view(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def hf_to_gguf(w, heads):
    """`LlamaModel.permute` of llama.cpp's convert_hf_to_gguf.py."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def test_it_is_the_permutation_of_meta_and_of_llama_cpp(grouped):
    from transformers.modeling_gguf_pytorch_utils import LlamaTensorProcessor

    old, new = weights(grouped / "half"), weights(grouped / "interleaved")
    undo = LlamaTensorProcessor({"num_attention_heads": 4, "num_key_value_heads": 2})._reverse_permute_weights
    for name, tensor in new.items():
        heads = {"q_proj": 4, "k_proj": 2}.get(name.split(".")[-2])
        if heads is None:
            assert torch.equal(tensor, old[name])
            continue
        assert torch.equal(tensor, hf_to_gguf(old[name], heads))
        assert torch.equal(torch.from_numpy(undo(tensor.numpy(), 4, heads)), old[name])
        if tensor.dim() == 2:
            assert torch.equal(meta_to_hf(tensor, heads), old[name])


# Other people's rotations, on the converted model.


def by_complex_numbers(q, k, cos, sin, unsqueeze_dim=1):
    """`apply_rotary_emb` of Meta's llama/model.py, from transformers' tables of halves."""
    pairs = cos.shape[-1] // 2
    turn = torch.complex(cos[..., :pairs], sin[..., :pairs])[:, None]
    each = [torch.view_as_complex(x.unflatten(-1, (pairs, 2)).contiguous()) * turn for x in (q, k)]
    return tuple(torch.view_as_real(x).flatten(-2) for x in each)


def logits(model, positions=None):
    with torch.no_grad():
        return model(torch.arange(3, 40)[None], position_ids=positions).logits


@pytest.mark.parametrize("folder", ["shipped", "grouped"])
def test_metas_rotation_reads_what_was_converted_and_transformers_own_does_not(folder, grouped, tmp_path, monkeypatch):
    from transformers import AutoModelForCausalLM
    from transformers.models.llama import modeling_llama

    start, there = (SHIPPED, tmp_path / "there") if folder == "shipped" else (grouped / "half", grouped / "interleaved")
    if folder == "shipped":
        convert(start, layout="interleaved", out=there)
    original, positions = AutoModelForCausalLM.from_pretrained(start), torch.arange(100, 137)[None]
    converted, want = AutoModelForCausalLM.from_pretrained(there), logits(original, positions)
    assert (logits(converted, positions) - want).abs().max() > 0.1 * want.abs().max()
    assert (logits(load(there).model, positions) - want).abs().max() < 1e-5 * want.abs().max()
    monkeypatch.setattr(modeling_llama, "apply_rotary_pos_emb", by_complex_numbers)
    assert (logits(converted, positions) - want).abs().max() < 1e-5 * want.abs().max()


def test_our_decoder_reads_either(tmp_path):
    start = made(tmp_path / "half", "llama", attention_bias=False)
    there = tmp_path / "interleaved"
    convert(start, layout="interleaved", out=there)
    tokens, ours = torch.arange(3, 40)[None], models.load(there)
    assert ours.encodings[0].layout == "interleaved"
    with torch.no_grad():
        want = models.load(start)(tokens)
        assert (ours(tokens) - want).abs().max() < 1e-5 * want.abs().max()
        assert (want - logits(load(start).model)).abs().max() < 1e-5 * want.abs().max()


@given(pairs=st.integers(1, 8), still=st.integers(0, 6), block=st.sampled_from(["leading", "trailing"]))
def test_scores_stay_under_the_other_rotation_in_float64(pairs, still, block):
    """Against rotations written out as matrices."""
    width, rotary = 2 * pairs + still, 2 * pairs
    random, first = torch.Generator().manual_seed(pairs), 0 if block == "leading" else still
    q, k = torch.randn(2, 3, width, generator=random, dtype=torch.float64)
    angles = torch.randn(3, pairs, generator=random, dtype=torch.float64)

    def matrices(layout):
        turns = torch.eye(width, dtype=torch.float64).repeat(3, 1, 1)
        for pair in range(pairs):
            a, b = (2 * pair, 2 * pair + 1) if layout == "interleaved" else (pair, pair + pairs)
            a, b, angle = a + first, b + first, angles[:, pair]
            turns[:, a, a], turns[:, b, b] = angle.cos(), angle.cos()
            turns[:, a, b], turns[:, b, a] = -angle.sin(), angle.sin()
        return turns

    def scores(q, k, layout):
        q, k = ((matrices(layout) @ x[..., None])[..., 0] for x in (q, k))
        return q @ k.T

    there, back = (order(width, rotary, to, block) for to in ("interleaved", "half"))
    assert torch.equal(there[back], torch.arange(width))
    want = scores(q, k, "half")
    assert torch.allclose(scores(q[:, there], k[:, there], "interleaved"), want, atol=1e-12)
    assert pairs == 1 or not torch.allclose(scores(q[:, there], k[:, there], "half"), want)


# Files.


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_shards_stay_shards_and_numbers_keep_their_bits(dtype, tmp_path):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(made(tmp_path / "one", "qwen2"), dtype=dtype)
    model.save_pretrained(tmp_path / "start", max_shard_size="4KB")
    start, there = tmp_path / "start", tmp_path / "there"
    before = {file.name: file.read_bytes() for file in start.iterdir()}
    convert(start, layout="interleaved", out=there)
    names = {file.name for file in start.iterdir()}
    assert {file.name for file in there.iterdir()} == names
    assert sum(name.endswith(".safetensors") for name in names) > 3
    index = "model.safetensors.index.json"
    assert (there / index).read_bytes() == (start / index).read_bytes()
    assert {file.name: file.read_bytes() for file in start.iterdir()} == before
    linked = {file.name for file in there.glob("*.safetensors") if file.samefile(start / file.name)}
    turned = {file.name for file in there.glob("*.safetensors") if file.read_bytes() != before[file.name]}
    assert linked
    assert turned
    assert not linked & turned
    old, new = weights(start), weights(there)
    assert all(new[name].dtype == old[name].dtype == dtype for name in old)
    assert all(torch.equal(new[name].flatten().sort()[0], old[name].flatten().sort()[0]) for name in old)


def test_a_tied_output_layer_stays_tied(tmp_path):
    start = made(tmp_path / "start", "llama", tie_word_embeddings=True)
    convert(start, layout="interleaved", out=tmp_path / "there")
    assert "lm_head.weight" not in weights(tmp_path / "there")
    assert load(tmp_path / "there").model.config.tie_word_embeddings


def test_a_model_too_large_to_run_is_proved_by_its_scores(grouped, tmp_path):
    done = convert(grouped / "half", layout="interleaved", out=tmp_path / "out", memory=1000)
    assert done.logits_error is None
    assert "GB are free" in done.not_run
    assert done.scores_error < 1e-5


def without(name):
    def damaged(head_dim, rotary_dim, to, block="leading"):
        return torch.arange(head_dim) if name == "nothing" else torch.arange(head_dim).flip(0)

    return damaged


@pytest.mark.parametrize("order", ["nothing", "flipped"])
def test_a_wrong_permutation_fails_the_proof_and_leaves_nothing(order, grouped, tmp_path, monkeypatch):
    monkeypatch.setattr("ropewalk.checkpoints.convert.tensors.order", without(order))
    with pytest.raises(VerificationError, match=r"the scores of layer 0 are .* nothing was written"):
        convert(grouped / "half", layout="interleaved", out=tmp_path / "out")
    assert not list(tmp_path.iterdir())


UNTURNED = [("llama", "k_proj.bias"), ("qwen3", "q_norm.weight"), ("olmo2", "k_norm.weight"),
            ("cohere", "q_norm.weight"), ("phi", "k_layernorm.bias")]  # fmt: skip


@pytest.mark.parametrize(("kind", "part"), UNTURNED)
def test_a_bias_or_a_norm_left_as_it_was_fails_the_proof(kind, part, tmp_path, monkeypatch):
    found = files._turn
    monkeypatch.setattr(files, "_turn", lambda file, own, to: found(file, [p for p in own if p.part != part], to))
    with pytest.raises(VerificationError, match="the scores of layer"):
        convert(made(tmp_path / "start", kind), layout=other(from_config(tmp_path / "start").main.layout),
                out=tmp_path / "out")  # fmt: skip
    assert not (tmp_path / "out").exists()


def test_a_number_that_is_none_fails_the_proof(grouped, tmp_path):
    folder = shutil.copytree(grouped / "half", tmp_path / "damaged")
    held = load_file(folder / "model.safetensors")
    held["model.layers.1.self_attn.k_proj.weight"][3, 3] = torch.nan
    save_file(held, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(VerificationError, match="the scores of layer 1 are nan"):
        convert(folder, layout="interleaved", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_logits_that_differ_fail_the_proof(grouped, tmp_path, monkeypatch):
    monkeypatch.setattr(proof, "TOLERANCE", 1e-12)
    monkeypatch.setattr("ropewalk.checkpoints.convert.scores_error", lambda *a: (0.0, 1.0))
    with pytest.raises(VerificationError, match="its logits are"):
        convert(grouped / "half", layout="interleaved", out=tmp_path / "out")
    assert not list(tmp_path.iterdir())


def changed(folder, start, **keys):
    shutil.copytree(start, folder)
    (folder / "config.json").write_text(json.dumps({**config(folder), **keys}))
    return folder


def test_what_cannot_be_converted_is_refused_by_name(grouped, tmp_path):
    start, out = grouped / "half", tmp_path / "out"

    def refused(message, folder=start, layout="interleaved", out=out):
        with pytest.raises(RopewalkError, match=message):
            convert(folder, layout=layout, out=out)
        assert not out.exists() or out == start

    refused("its pairs are half already", layout="half")
    refused("layout='neox' is not one of 'half', 'interleaved'", layout="neox")
    refused("exists already", out=start)
    gptj = {"model_type": "gptj", "n_positions": 64, "n_embd": 32, "n_layer": 4, "n_head": 4, "rotary_dim": 8}
    refused(
        "where a 'gptj' model keeps its queries and keys is not in the table; converted are cohere, ",
        changed(tmp_path / "gptj", start, **gptj),
    )
    refused(
        "quantised by bitsandbytes",
        changed(tmp_path / "q", start, quantization_config={"quant_method": "bitsandbytes"}),
    )
    refused(
        "no whole number of heads of 8 features for 2 heads",
        changed(tmp_path / "h", start, num_attention_heads=2, head_dim=8),
    )
    refused("is of a layer that the config, with 2, does not have", changed(tmp_path / "l", start, num_hidden_layers=2))
    refused("layer 4 lacks the weights", changed(tmp_path / "m", start, num_hidden_layers=5))


def test_a_weight_that_is_not_known_stops_it(grouped, tmp_path):
    folder = shutil.copytree(grouped / "half", tmp_path / "adapter")
    held = load_file(folder / "model.safetensors")
    name = "model.layers.0.self_attn.q_proj.lora_A.weight"
    save_file({**held, name: torch.zeros(2, 32)}, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(RopewalkError, match=f"{name} is no weight that this model type is known to have"):
        convert(folder, layout="interleaved", out=tmp_path / "out")


# Readers.


def test_a_config_that_says_so_is_a_finding_and_gets_no_recipe(grouped):
    from ropewalk.checkpoints.recipes import recipes

    spec = from_config(grouped / "interleaved")
    assert config(grouped / "interleaved")["rope_interleave"] is True
    assert [finding.code for finding in spec.findings if finding.severity == "error"] == ["pairing-unread"]
    assert {recipe.status for recipe in recipes(spec, "DIR")} == {"refused"}
    assert spec.layers[0].rotary().layout == "interleaved"
    assert spec.to_config() == config(grouped / "interleaved")


@pytest.mark.parametrize("keys", [{"rope_interleave": False}, {"rope_interleave": None}, {"rope_interleaved": False}])
def test_a_key_that_changes_nothing_is_no_finding(keys, grouped):
    spec = from_config({**config(grouped / "half"), **keys})
    assert spec.main.layout == "half"
    assert spec.turned is None
    assert not [finding for finding in spec.findings if finding.severity == "error"]


def test_a_key_that_is_no_switch_is_refused(grouped):
    with pytest.raises(RopewalkError, match="rope_interleave='yes' is not true or false"):
        from_config({**config(grouped / "half"), "rope_interleave": "yes"})


def test_a_model_whose_code_cannot_be_turned_is_not_loaded(grouped, tmp_path, monkeypatch):
    from transformers.models.llama import modeling_llama

    monkeypatch.setattr(modeling_llama, "apply_rotary_pos_emb", lambda q, k, cos, sin, unsqueeze_dim=1: (q * 2, k))
    with pytest.raises(
        RopewalkError, match=r"laid out for interleaved pairs, as rope_interleave says, .* cannot be made"
    ):
        load(grouped / "interleaved")


def test_a_converted_model_generates_with_its_cache(grouped):
    texts = [
        load(grouped / layout).model.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=12, do_sample=False)
        for layout in ("half", "interleaved")
    ]
    assert torch.equal(*texts)


# Detection.


@pytest.mark.parametrize("kind", sorted(set(FAMILIES) - {"deepseek_v3", "youtu", "glm4_moe_lite"}))
def test_the_code_of_every_family_is_told_and_weights_that_were_not_trained_are_not(kind, tmp_path):
    from ropewalk.checkpoints.pairing import turned

    model = load_any(made(tmp_path / "model", kind))
    native, before = from_config(tmp_path / "model").main.layout, logits(model)
    found = detect_layout(model)
    assert (found.code, found.weights) == (native, None)
    with turned(model, other(native)):
        assert detect_layout(model).code == other(native)
    assert torch.equal(logits(model), before)
    assert not any("forward" in vars(module) for module in model.modules())


def load_any(folder):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder).eval()


def test_the_shipped_weights_are_told_whatever_runs_them(tmp_path):
    convert(SHIPPED, layout="interleaved", out=tmp_path / "there")
    for folder, ours, theirs in ((SHIPPED, "half", "half"), (tmp_path / "there", "interleaved", "half")):
        found = detect_layout(load(folder).model)
        assert (found.code, found.weights) == (ours, ours)
        assert found.gains[ours] > 3
        assert found.gains[other(ours)] < 1
        assert detect_layout(load_any(folder)).code == theirs  # transformers by itself, which reads the second wrong
        assert detect_layout(load_any(folder)).weights == ours


def test_a_model_without_an_output_layer_tells_its_code(grouped):
    found = detect_layout(load_any(grouped / "half").model)
    assert (found.code, found.weights, found.gains) == ("half", None, {})


def test_code_that_cannot_be_told_is_an_error(tmp_path):
    with pytest.raises(VerificationError, match="no module of Linear calls apply_rotary_pos_emb"):
        detect_layout(nn.Linear(2, 2))
    with pytest.raises(VerificationError, match="apply_rotary_pos_emb or apply_rotary_pos_emb_interleave"):
        detect_layout(load_any(made(tmp_path / "model", "deepseek_v3")))


SMOLLM2 = Path(__file__).parents[2] / ".cache/real/SmolLM2.gguf"


@pytest.mark.slow
@pytest.mark.skipif(not SMOLLM2.is_file(), reason="make demo-real fetches it")
def test_smollm2_there_and_back_and_told_by_its_weights(tmp_path):
    start = load(SMOLLM2)
    found = detect_layout(start.model)
    print(found)
    assert (found.code, found.weights) == ("half", "half")
    done = convert(SMOLLM2, layout="interleaved", out=tmp_path / "there")
    print(done)
    assert max(done.scores_error, done.logits_error) < 1e-5
    there = load(tmp_path / "there")
    found = detect_layout(there.model)
    print(found)
    assert (found.code, found.weights) == ("interleaved", "interleaved")
    tokens = torch.randint(40_000, (1, 64), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        want = start.model(tokens).logits
        apart = ((models.load(tmp_path / "there")(tokens) - want).abs().max() / want.abs().max()).item()
    print("Decoder", apart)
    assert apart < 1e-5
    convert(tmp_path / "there", layout="half", out=tmp_path / "back")
    back, own = weights(tmp_path / "back"), start.model.state_dict()
    assert all(torch.equal(tensor, own[name]) for name, tensor in back.items())
