"""What the findings say about transformers, asked of transformers itself."""

import copy
import importlib
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

from ropewalk import from_config
from ropewalk.checkpoints.config import examined
from ropewalk.checkpoints.errors import ConfigError

pytestmark = pytest.mark.filterwarnings("ignore")
SIZES = {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2, "max_position_embeddings": 16_384}
ORIGINAL = {"original_max_position_embeddings": 4096}
YARN = {"rope_type": "yarn", "factor": 4.0, **ORIGINAL}
FACTORS = {"short_factor": [1.0] * 32, "long_factor": [2.0] * 32}
LONGROPE = {"rope_type": "longrope", **ORIGINAL, **FACTORS}
TYPES = {"head_dim": 64, "layer_types": ["sliding_attention", "full_attention"]}
DEFAULT = {"rope_type": "default", "rope_theta": 10_000.0}
LLAMA = {"model_type": "llama", **SIZES, "rope_theta": 10_000.0}
MSCALES = {"short_mscale": 1.0, "long_mscale": 1.0}
NEOX = {"model_type": "gpt_neox", **SIZES}
GEMMA3, OLMO3 = ({"model_type": name, **SIZES, **TYPES} for name in ("gemma3_text", "olmo3"))
MPT = {"model_type": "mpt", "d_model": 64, "n_heads": 4, "n_layers": 2, "max_seq_len": 32, "vocab_size": 99}
CLASSES = {
    "llama": "Llama", "gemma3_text": "Gemma3", "olmo3": "Olmo3", "gpt_neox": "GPTNeoX", "phimoe": "Phimoe",
    "mixtral": "Mixtral", "phi3": "Phi3",
}  # fmt: skip


def codes(config: dict[str, Any], to: int | None = None) -> dict[str, str]:
    try:
        return {found.code: found.severity for found in examined(copy.deepcopy(config), part=None, to=to).findings}
    except ConfigError as error:
        return {error.finding.code: error.finding.severity}


def theirs(config: dict[str, Any]) -> Any:
    """transformers' config object."""
    return AutoConfig.for_model(**copy.deepcopy(config))


def rotary(config: dict[str, Any]) -> Any:
    """transformers' rotary module of a config."""
    kind = config["model_type"]
    package = kind.removesuffix("_text")
    module = importlib.import_module(f"transformers.models.{package}.modeling_{package}")
    return getattr(module, f"{CLASSES[kind]}RotaryEmbedding")(theirs(config))


def tiny(config: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    more = {"vocab_size": 99, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 32}
    more["initializer_range"] = 0.5
    return AutoModelForCausalLM.from_config(theirs({**config, **more})).eval()


def apart(config: dict[str, Any], length: int) -> float:
    """How far the last logits of a decode with a cache are from those of one pass."""
    model, ids = tiny(config), torch.arange(length)[None] % 99
    with torch.no_grad():
        whole, cache = model(ids).logits[0, -1], None
        for token in ids[0]:
            out = model(token[None, None], past_key_values=cache, use_cache=True)
            cache = out.past_key_values
    return float((out.logits[0, -1] - whole).abs().max())


def test_share():
    plain = {**LLAMA, "partial_rotary_factor": 0.5}
    assert "share-ignored" in codes(plain)
    assert len(rotary(plain).inv_freq) == 32  # of 64 features: all of them
    scaled = {**plain, "rope_scaling": YARN}
    assert "share-by-scaling" in codes(scaled)
    assert len(rotary(scaled).inv_freq) == 16


def test_truncate():
    def nested(**more: Any) -> dict[str, Any]:
        full = {**YARN, "rope_theta": 1e6, **more}
        return {**GEMMA3, "rope_parameters": {"sliding_attention": DEFAULT, "full_attention": full}}

    assert "truncate-ignored" in codes(nested(truncate=False))
    assert torch.equal(*(rotary(nested(**m)).full_attention_inv_freq for m in ({}, {"truncate": False})))
    flat = [{**LLAMA, "rope_scaling": {**YARN, "truncate": value}} for value in (True, False)]
    assert "truncate-ignored" not in codes(flat[1])
    assert not torch.equal(*(rotary(one).inv_freq for one in flat))


@pytest.mark.parametrize("pair", [
    {"mscale": 0.7}, {"mscale_all_dim": 0.7}, {"mscale": 0.0, "mscale_all_dim": 1.0},
    {"mscale": 1.0, "mscale_all_dim": 0},
])  # fmt: skip
def test_mscale_of_0_or_alone(pair):
    config = {**LLAMA, "rope_scaling": {**YARN, **pair}}
    assert "mscale-ignored" in codes(config)
    assert rotary(config).attention_scaling == rotary({**LLAMA, "rope_scaling": YARN}).attention_scaling


def test_equal_mscales_cancel():
    config = {**LLAMA, "rope_scaling": {**YARN, "mscale": 0.7, "mscale_all_dim": 0.7}}
    assert "temperature-cancelled" in codes(config)
    assert rotary(config).attention_scaling == 1.0


@pytest.mark.parametrize("name", ["beta_fast", "beta_slow"])
def test_beta_of_0(name):
    config = {**LLAMA, "rope_scaling": {**YARN, name: 0}}
    assert "beta-ignored" in codes(config)
    assert torch.equal(rotary(config).inv_freq, rotary({**LLAMA, "rope_scaling": YARN}).inv_freq)


@pytest.mark.parametrize("config", [GEMMA3, OLMO3], ids=["gemma3", "olmo3"])
def test_one_set_of_keys_for_all_layers(config):
    """rope_parameters is dropped for every label, rope_scaling for the sliding layers."""
    plain = rotary(config)
    new, old = {**config, "rope_parameters": {**YARN, "rope_theta": 1e4}}, {**config, "rope_scaling": YARN}
    assert codes(new)["scaling-dropped"] == "error"
    assert codes(old)["scaling-dropped"] == "note"
    assert torch.equal(rotary(new).full_attention_inv_freq, plain.full_attention_inv_freq)
    assert not torch.equal(rotary(old).full_attention_inv_freq, plain.full_attention_inv_freq)
    assert torch.equal(rotary(old).sliding_attention_inv_freq, plain.sliding_attention_inv_freq)


def test_base_of_gpt_neox():
    config = {**NEOX, "rope_theta": 5e5}
    assert "base-ignored" in codes(config)
    assert torch.equal(rotary(config).inv_freq, rotary(NEOX).inv_freq)
    assert not torch.equal(rotary({**NEOX, "rotary_emb_base": 5e5}).inv_freq, rotary(NEOX).inv_freq)


def test_original_length_twice():
    config = {**LLAMA, "rope_scaling": YARN, "original_max_position_embeddings": 8192}
    assert "original-length-overwritten" in codes(config)
    assert rotary(config).config.rope_parameters["original_max_position_embeddings"] == 8192
    assert from_config(config).native_length == 8192
    full = {**YARN, "rope_theta": 1e6}
    nested = {**GEMMA3, "rope_parameters": {"sliding_attention": DEFAULT, "full_attention": full}}
    nested |= {"original_max_position_embeddings": 8192}
    assert "original-length-overwritten" in codes(nested)
    assert rotary(nested).config.rope_parameters["full_attention"]["original_max_position_embeddings"] == 4096


def test_original_length_missing_is_guessed():
    config = {**LLAMA, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}
    assert "original-length-missing" in codes(config)
    assert rotary(config).config.rope_parameters["original_max_position_embeddings"] == 16_384


def test_phimoe_never_uses_the_long_factor():
    config = {**LLAMA, "model_type": "phimoe", "rope_scaling": {**LONGROPE, "attention_factor": 1.0, **MSCALES}}
    assert "long-factor-unused" in codes(config)
    cos, _ = rotary(config)(torch.zeros(1, 1, 1), torch.tensor([[0, 9999]]))
    assert cos[0, 1, 0] == pytest.approx(float(torch.tensor(9999.0).cos()), abs=1e-3)  # not 9999 / 2


@pytest.mark.parametrize(
    "keys", [YARN, LONGROPE, {"rope_type": "dynamic", "factor": 2.0}], ids=lambda k: k["rope_type"]
)
def test_head_dim_null(keys):
    config = {**LLAMA, "model_type": "mixtral", "rope_scaling": keys}
    assert "head-dim-null" in codes(config)
    with pytest.raises(Exception, match="NoneType"):
        rotary(config)
    stated = {**config, "head_dim": 64}
    assert "head-dim-null" not in codes(stated)
    assert len(rotary(stated).inv_freq) == 32


@pytest.mark.parametrize(("kind", "keys"), [
    ("llama", {**FACTORS, **ORIGINAL, "type": "su"}), ("phi3", {**FACTORS, "type": "su"}),
    ("llama", {"type": "mrope"}), ("llama", {"type": "xdrope", "factor": 2.0}),
])  # fmt: skip
def test_alias_of_a_rope_type(kind, keys):
    config = {**LLAMA, "model_type": kind, **ORIGINAL, "rope_scaling": keys}
    assert "rope-type-alias" in codes(config)
    with pytest.raises(KeyError):
        rotary(config)


@pytest.mark.parametrize("kind", ["phi3", "phimoe"])
def test_types_that_phi_refuses(kind):
    config = {**LLAMA, "model_type": kind, **ORIGINAL, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}
    assert "rope-type-refused" in codes(config)
    with pytest.raises(Exception, match="rope_parameters"):
        rotary(config)


def test_unknown_types_and_factors_pass_in_transformers():
    """What is an error here goes through AutoConfig without a word."""
    for keys in ({**YARN, "rope_type": "banana"}, {**YARN, "factor": 0.5}, {**LONGROPE, "long_factor": [2.0]}):
        theirs({**LLAMA, "rope_scaling": keys})
        assert "error" in codes({**LLAMA, "rope_scaling": keys}).values()


def test_two_spellings():
    """rope_scaling is taken whole, and the base of rope_parameters is lost with the rest of it."""
    both = {**LLAMA, "rope_scaling": YARN, "rope_parameters": {**YARN, "factor": 2.0, "rope_theta": 1e4}}
    assert "spellings-contradict" in codes(both)
    assert theirs(both).rope_parameters["factor"] == 4.0
    lost = {**LLAMA, "rope_scaling": YARN, "rope_parameters": {**YARN, "rope_theta": 7e4}}
    lost.pop("rope_theta")
    assert "base-lost" in codes(lost)
    assert theirs(lost).rope_parameters["rope_theta"] == 1e4


def test_one_set_of_keys_stops_modernbert():
    config = {"model_type": "modernbert", **SIZES, "rope_parameters": {"rope_type": "linear", "factor": 2.0}}
    assert "rope-flat" in codes(config)
    with pytest.raises(Exception, match="rope_parameters"):
        theirs(config)


def test_dynamic_does_nothing_up_to_the_maximum():
    config = {**LLAMA, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0, **ORIGINAL}}
    assert "dynamic-no-op" in codes(config)
    assert torch.equal(rotary(config).inv_freq, rotary(LLAMA).inv_freq)


def test_frequencies_that_change_under_a_cache():
    short = {**LLAMA, "max_position_embeddings": 16}
    dynamic = {**short, "rope_scaling": {"rope_type": "dynamic", "factor": 8.0}}
    lists = {"short_factor": [1.0] * 8, "long_factor": [9.0] * 8, "original_max_position_embeddings": 16}
    switched = {**LLAMA, "head_dim": 16, "rope_scaling": {"rope_type": "longrope", **lists}}
    steady = {**short, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}
    assert "dynamic-with-cache" in codes(dynamic)
    assert "longrope-with-cache" in codes(switched)
    assert apart(steady, 24) < 1e-3 < 0.1 < min(apart(dynamic, 24), apart(switched, 24))


def test_mpt():
    """Its alibi and alibi_bias_max are ignored, and it stops past max_seq_len."""
    ids, outputs = torch.arange(16)[None], []
    for attention in ({}, {"alibi_bias_max": 16}, {"alibi": False}):
        config = {**MPT, "attn_config": attention}
        assert ("alibi-key-ignored" in codes(config)) == bool(attention)
        torch.manual_seed(0)
        with torch.no_grad():
            outputs.append(AutoModel.from_config(theirs(config)).eval()(ids).last_hidden_state)
    assert torch.equal(outputs[0], outputs[1])
    assert torch.equal(outputs[0], outputs[2])
    assert "table-short" in codes(MPT, to=33)
    with pytest.raises(RuntimeError):
        AutoModel.from_config(theirs(MPT))(torch.arange(33)[None])


def test_a_learned_table_ends():
    config = {"model_type": "bert", "hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1,
              "max_position_embeddings": 16, "vocab_size": 99, "intermediate_size": 32}  # fmt: skip
    assert "table-short" in codes(config, to=17)
    with pytest.raises((IndexError, RuntimeError)):
        AutoModel.from_config(theirs(config))(torch.arange(17)[None])


def test_falcon_rounds_its_bias():
    from transformers.models.falcon.modeling_falcon import build_alibi_tensor

    assert "alibi-in-bf16" in codes({"model_type": "falcon", **SIZES, "alibi": True})
    bias = build_alibi_tensor(torch.ones(1, 2048, dtype=torch.long), 4, torch.float32)[0, 0]
    assert len(bias[-64:].unique()) < 16


def test_frequencies_among_the_weights():
    config = {"model_type": "esm", **SIZES, "vocab_size": 33, "pad_token_id": 1, "position_embedding_type": "rotary"}
    assert "frequencies-in-weights" in codes(config)
    names = AutoModel.from_config(theirs({**config, "hidden_size": 32, "intermediate_size": 32})).state_dict()
    assert [name for name in names if name.endswith("inv_freq")]


def test_a_null_is_not_the_default():
    for key, config in (("rope_theta", LLAMA), ("rotary_pct", {"model_type": "gpt_neox", **SIZES})):
        assert "null-stated" in codes({**config, key: None})
        with pytest.raises(TypeError):
            AutoModel.from_config(theirs({**config, key: None}))


def test_layers_that_slide_need_a_window():
    config = {"model_type": "gemma2", **SIZES, "head_dim": 64, "sliding_window": None, "vocab_size": 99}
    assert "window-missing" in codes(config)
    with pytest.raises((TypeError, ValueError)):
        AutoModel.from_config(theirs(config))(torch.arange(8)[None])


def test_a_foreign_window_is_not_read():
    config, outputs = {**LLAMA, "sliding_window": 4}, []
    assert "key-unread" in codes(config)
    for one in (config, LLAMA):
        torch.manual_seed(0)
        with torch.no_grad():
            outputs.append(AutoModel.from_config(theirs(one)).eval()(torch.arange(16)[None]).last_hidden_state)
    assert torch.equal(*outputs)


def test_the_list_of_types_wins_over_the_pattern():
    config = {**GEMMA3, "sliding_window_pattern": 1}
    assert "key-overruled" in codes(config)
    assert theirs(config).layer_types == GEMMA3["layer_types"]


# The traps of transformers 5.23 that a config.json brings to a user, and the code that names each.
TRAPS: dict[str, tuple[str, dict[str, Any]]] = {
    "dynamic NTK with a cache": ("dynamic-with-cache", {**LLAMA, "rope_scaling": {"type": "dynamic", "factor": 2.0}}),
    "LongRoPE's switch": ("longrope-with-cache", {**LLAMA, "rope_scaling": LONGROPE}),
    "PhiMoE's long_factor": ("long-factor-unused", {
        **LLAMA, "model_type": "phimoe", "rope_scaling": {**LONGROPE, "short_mscale": 1.2, "long_mscale": 1.2}}),
    "Phi-3's su": ("rope-type-alias", {
        **LLAMA, "model_type": "phi3", **ORIGINAL, "rope_scaling": {**FACTORS, "type": "su"}}),
    "truncate in a layer type's keys": ("truncate-ignored", {**GEMMA3, "rope_parameters": {
        "sliding_attention": DEFAULT, "full_attention": {**YARN, "rope_theta": 1e6, "truncate": False}}}),
    "head_dim null": ("head-dim-null", {**LLAMA, "model_type": "mixtral", "head_dim": None, "rope_scaling": YARN}),
    "the original length twice": ("original-length-overwritten", {
        **LLAMA, "rope_scaling": YARN, "original_max_position_embeddings": 8192}),
    "the base twice": ("base-contradicted", {**LLAMA, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}),
    "an unknown rope type": ("rope-type-unknown", {**LLAMA, "rope_scaling": {**YARN, "rope_type": "banana"}}),
    "factor 0.5": ("value-impossible", {**LLAMA, "rope_scaling": {**YARN, "factor": 0.5}}),
    "a factor list of one": ("factors-do-not-fit", {
        **LLAMA, "rope_scaling": {**LONGROPE, "short_factor": [1.0], "long_factor": [2.0]}}),
    "a share that is ignored": ("share-ignored", {**LLAMA, "partial_rotary_factor": 0.5}),
    "ALiBi in 16 bits": ("alibi-in-bf16", {"model_type": "bloom", "hidden_size": 64, "n_head": 4, "n_layer": 2,
                                           "torch_dtype": "bfloat16"}),
    "MPT's switch": ("alibi-key-ignored", {**MPT, "attn_config": {"alibi": False}}),
    "MPT's slopes": ("alibi-key-ignored", {**MPT, "attn_config": {"alibi_bias_max": 16}}),
}  # fmt: skip


@pytest.mark.parametrize("trap", TRAPS)
def test_traps_are_found(trap):
    code, config = TRAPS[trap]
    assert code in codes(config)
