"""Writes src/ropewalk/checkpoints/model_types.json: how each of transformers' model types reads its config.

Everything that a config class does is measured by building it and changing one key at a time; what only modelling
code knows (which features pair up, which layers skip the rotation) stands in the tables below, each entry read in the
source and held by tests/external/test_catalogue.py, which compares every type with transformers' own module.

Run: .venv/bin/python recipes/model_types.py
"""

import ast
import importlib.util
import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

OUT = Path(__file__).parents[1] / "src/ropewalk/checkpoints/model_types.json"


def listed(words: str) -> list[str]:
    """The words of a string."""
    return words.split()


def each(words: str, value: Any) -> dict[str, Any]:
    """The same value for each of the words."""
    return {word: value for word in words.split()}


# Packages by what their apply functions do. Half is the rule and is not listed.
INTERLEAVED = set(
    listed(
        "blt codegen cohere cohere2 cohere2_moe deepseek_v2 deepseek_v4 ernie4_5 ernie4_5_moe ernie4_5_vl_moe "
        "glm glm4 glm4v glm_ocr gptj helium llama4 moonshine moonshine_streaming openai_privacy_filter "
        "pe_audio pe_audio_video pe_video roformer"
    )
)
HALF_OUT = set(listed("axk2 bailing_hybrid deepseek_v32 dots3_note glm_moe_dsa longcat_flash mistral_large4"))
SWITCHED = set(listed("axk1 deepseek_v3 glm4_moe_lite mistral4 youtu"))  # by the key rope_interleave
SOFTMAX = set(
    listed(
        "axk1 axk2 bailing_hybrid deepseek_v2 deepseek_v3 deepseek_v32 glm4_moe_lite glm_moe_dsa hy_v4 "
        "longcat_flash minicpm3 mistral4 mistral_large4 youtu"
    )
)
SECTIONS = {  # package -> how the pairs are dealt out among (time, height, width), default sections
    "qwen2_vl": ("blocks", [16, 24, 24]),
    "qwen2_5_vl": ("blocks", [16, 24, 24]),
    "qwen2_5_omni": ("blocks", [16, 24, 24]),
    "paddleocr_vl": ("blocks", [16, 24, 24]),
    "glm4v": ("blocks", [8, 12, 12]),
    "glm4v_moe": ("blocks", [8, 12, 12]),
    "glm_image": ("blocks", [8, 12, 12]),
    "glm_ocr": ("blocks", [8, 12, 12]),
    "qwen3_vl": ("strided", [24, 20, 20]),
    "qwen3_vl_moe": ("strided", [24, 20, 20]),
    "qwen3_omni_moe": ("strided", [24, 20, 20]),
    "cosmos3_edge": ("strided", [24, 20, 20]),
    "qwen3_5": ("strided", [11, 11, 10]),
    "qwen3_5_moe": ("strided", [11, 11, 10]),
    "qwen4_exp": ("strided", [11, 11, 10]),
    "cohere_compass": ("strided", None),
    "ernie4_5_vl_moe": ("ernie", [22, 22, 20]),
    "neomme": ("alternating", None),
}
ONE_AXIS = {"qwen2_5_omni_dit", "qwen3_omni_moe_talker_code_predictor"}
AXIAL = {  # package -> how a vision tower deals its pairs out among (height, width)
    "inkling2": {"axes": "reversed", "layout": "interleaved"},
    "step3p7": {"axes": "reversed"},
    "kimi_k25": {"axes": "alternating"},
    "pixtral": {"axes": "pixtral"},
    "minimax_m3_vl": {"axes": "three"},
    "gemma4": {"groups": 2},
    "llama4": {"layout": "interleaved"},
    **each("edgetam_video sam2_video sam3 sam3_tracker_video", {"layout": "interleaved"}),
}
# model type -> which layers go without a rotation
NOPE = {
    **each("cohere2 cohere2_moe flint afmoe", "not sliding"),
    **each("exaone4 exaone4_5_text exaone_moe kolibri1", "not sliding if windowed"),
    **each("smollm3 llama4_text mistral_large4_text", "no_rope_layers"),
    **each("granite_swa granitemoe_swa", "layer_rope_theta"),
    **each("muse_glimmer_text muse_spark_text", "layer_rope_theta, else every fourth from the last"),
    **each("jamba nemotron_h zamba kimi_linear", "all"),
    "zamba2": "unless use_mem_rope",
    "mllama_text_model": "cross_attention_layers",
    "granitemoehybrid": "unless position_embedding_type is rope",
    "olmo_hybrid": "no rope_theta",
}
GLOBAL_WIDTH = {"full_attention": ["global_head_dim", 512]}
FULL_SLIDING = {"then": "full_attention", "rest": "sliding_attention"}
# model type -> facts that no config states; they are added to the measured ones
STATED: dict[str, dict[str, Any]] = {
    "gptj": {"encoding": "rotary", "layout": "interleaved", "turning": "rotary_dim", "keys": {"rope_theta": []}},
    "codegen": {"encoding": "rotary", "layout": "interleaved", "turning": "rotary_dim", "keys": {"rope_theta": []}},
    "roformer": {"encoding": "rotary", "layout": "interleaved", "keys": {"rope_theta": []}},
    "esm": {"encoding": "rotary", "only_if": {"position_embedding_type": "rotary"}, "otherwise": "learned",
            "table": {"length": "max_position_embeddings", "first_row": "pad_token_id+1"}},
    "wav2vec2-bert": {"encoding": "rotary", "only_if": {"position_embeddings_type": "rotary"}, "otherwise": "shaw"},
    "wav2vec2-conformer": {"encoding": "rotary", "only_if": {"position_embeddings_type": "rotary"},
                           "otherwise": "transformer_xl"},
    "seamless_m4t": {"encoding": "rotary", "only_if": {"position_embeddings_type": "rotary"},
                     "otherwise": "transformer_xl"},
    "mistral4": {"width": "qk_rope_head_dim", "own_whole": True},
    **each("qwen3_moe", {"defaults": {"use_sliding_window": False}}),
    **each("moshi kyutai_speech_to_text qwen3_omni_moe_text unlimited_ocr_text", {"windows": None}),
    **each("openai_privacy_filter ultrabert neomme modernbert", {"window_extra": 1}),
    "gemma3_text": {"both_ways": ["use_bidirectional_attention", True, 1]},
    **each("minimax", {"windows": "all"}),
    "qwen2_moe": {"windows": "alternate"},
    "smollm3": {"windows": "unrotated"},
    "bamba": {"cycle": {"listed": "attn_layer_indices", "then": "full_attention", "rest": "linear_attention"}},
    "flint": {"cycle": {**FULL_SLIDING, "every": 4, "at": 1, "also": [0, 1], "last": "full_attention"}},
    "mimo_v2_flash": {
        "other_window": ["sliding_window_size", 1], "share_default": 0.334,
        "cycle": {**FULL_SLIDING, "every": 6, "at": 5, "also": [0]},
    },
    **each("muse_glimmer_text muse_spark_text", {"cycle": {**FULL_SLIDING, "every": 4, "at": 0, "backward": True}}),
    "step3p5": {
        "rope": each("full_attention sliding_attention", {"rope_type": "default", "rope_theta": 10000.0}),
        "keys": {"rope_theta": ["full_attention.rope_theta", "sliding_attention.rope_theta"]},
    },
    "hrm_text": {"layers": ["num_layers_per_stack"]},
    "nemotron_h": {"layers": ["layers_block_type", "hybrid_override_pattern"]},
    "dots3_note_text": {"width": "qk_rope_head_dim"},
    "minimax_m2": {"turning": "rotary_dim"},
    "deepseek_v4": {
        "block": "trailing",
        "labels": {"sliding_attention": "main", "compressed_sparse_attention": "compress",
                   "heavily_compressed_attention": "compress"},
        "forced": {"compress": {"attention_factor": 1.0}},
        "windows": "all",
        "cycle": {"every": 2, "at": 1, "then": "compressed_sparse_attention", "rest": "heavily_compressed_attention",
                  "not_at": 1},
    },
    "nanochat": {"reverse": True},
    "blt": {"encoding": None, "rope": None, "main": "global_config"},
    **each("qwen2_vl qwen2_5_vl hunyuan_vl paddleocr_vl fuyu dots3_note glm5_next", {"flat": True}),
    "zamba2": {"needs": ["head_dim"]},
    **each("deberta deberta-v2", {
        "encoding": "deberta", "only_if": {"relative_attention": True}, "otherwise": "learned",
        "table": {"length": "max_position_embeddings"},
    }),
    "falcon": {  # its published configs leave the length out
        "optional": ["max_position_embeddings"], "only_if": {"alibi": False}, "otherwise": "alibi",
    },
    "qwen2_5_omni_dit": {"layout": "interleaved", "output": "half"},
    "cohere_compass_text": {
        "encoding": "rotary", "axes": "strided",
        "rope": each("full_attention sliding_attention", {"rope_type": "default", "rope_theta": 10000.0}),
    },
    **each("hunyuan_v1_dense hunyuan_v1_moe hunyuan_vl_text", {"alpha": True}),
    **each(
        "gemma4_text gemma4_unified_text diffusion_gemma_text",
        {"widths": GLOBAL_WIDTH, "both_ways": ["use_bidirectional_attention", "all", 2]},
    ),
    "embedding_gemma2_text": {"widths": GLOBAL_WIDTH, "window_extra": 1},
    "phimoe": {"longrope": "short"},
    **each("phi3 phi4_multimodal", {"longrope": "switched"}),
}  # fmt: skip
# Types that do not rotate: their encoding, the facts of its table or bias, and which they are.
# length: the key of the number of positions; first_row: where position 0 stands; extra_rows: rows beyond the length;
# extends: the table grows with the input.
PADDED = {"first_row": "pad_token_id+1"}
SHIFTED = {"first_row": 2, "extra_rows": 2}
LENGTH = {"length": "max_position_embeddings"}
SIN_COS = {"order": "sin_cos", "grid": "vaswani"}
TENSOR2TENSOR = {"order": "sin_cos", "grid": "tensor2tensor"}
T5 = {"buckets": "relative_attention_num_buckets", "max_distance": "relative_attention_max_distance"}
WITHOUT_ROTATION: list[tuple[str, dict[str, Any], str]] = [
    ("learned", LENGTH,
     "albert align_text_model aimv2_text_model bert-generation bert big_bird bigbird_pegasus blenderbot "
     "blenderbot-small blip_text_model chinese_clip_text_model clip_text_model clipseg_text_model clvp_decoder "
     "convbert distilbert dpr electra ernie flaubert flava_text_model fnet git gpt_neo groupvit_text_model "
     "instructblip_qformer instructblipvideo_qformer layoutlm megatron-bert metaclip_2_text_model "
     "mobilebert owlv2_text_model owlvit_text_model rembert roc_bert sam3_lite_text_text_model "
     "siglip2_text_model siglip_text_model splinter squeezebert tapas vilt visual_bert xclip_text_model xlm "
     "decision_transformer gpt2 gpt-sw3 gpt_bigcode imagegpt openai-gpt"),
    ("learned", {**LENGTH, "first_row": 2}, "mpnet"),
    ("learned", {**LENGTH, **SHIFTED}, "bart biogpt mbart mra mvp nystromformer opt plbart trocr yoso"),
    ("learned", {**LENGTH, **PADDED},
     "altclip_text_model bridgetower_text_model camembert clap_text_model data2vec-text ibert layoutlmv3 lilt "
     "longformer luke markuplm prophetnet roberta-prelayernorm roberta xlm-roberta-xl xlm-roberta xmod"),
    ("learned", {"length": "max_target_positions"}, "whisper"),
    ("learned", {"length": "block_size"}, "semantic coarse_acoustics fine_acoustics"),
    ("sinusoidal", {**LENGTH, "order": "cos_sin", "grid": "tensor2tensor", "extends": True},
     "musicgen_decoder musicgen_melody_decoder"),
    ("sinusoidal", {**LENGTH, **TENSOR2TENSOR}, "tipsv2_text_model"),
    ("sinusoidal", {**LENGTH, **SIN_COS}, "canary_decoder marian pegasus videoprism_text_model ctrl"),
    ("sinusoidal", {**LENGTH, **TENSOR2TENSOR, "first_row": 2, "extra_rows": 2, "extends": True}, "xglm"),
    ("sinusoidal", {**LENGTH, **TENSOR2TENSOR, **PADDED, "extra_rows": 2, "extends": True},
     "kosmos_2_5_text_model kosmos_2_text_model m2m_100 nllb-moe"),
    ("sinusoidal", {**LENGTH, **TENSOR2TENSOR, **PADDED, "extra_rows": "pad_token_id+1", "extends": True}, "fsmt"),
    ("sinusoidal", {**TENSOR2TENSOR, **PADDED, "length": "max_target_positions", "extra_rows": 2, "extends": True},
     "speech_to_text"),
    ("learned", {"length": "max_encoder_position_embeddings"}, "led"),
    ("learned", {**LENGTH, **SHIFTED}, "pp_formulanet_text"),
    ("learned", LENGTH, "cohere_asr"),
    ("sinusoidal", {**TENSOR2TENSOR, "extends": True}, "pegasus_x"),
    ("t5", T5, "t5 mt5 switch_transformers pop2piano udop longt5 umt5 pix2struct_text_model"),
    ("alibi", {}, "bloom"),
    ("alibi", {"length": "max_seq_len", "rule": "halves"}, "mpt"),
    ("shaw", {}, "speecht5 granite_speech_encoder granite_speech5_encoder vits seamless_m4t_v2"),
    ("transformer_xl", {}, "xlnet funnel fastspeech2_conformer parakeet_encoder"),
    ("deberta", {}, "sew-d"),
    ("none", {}, "mamba mamba2 falcon_mamba rwkv xlstm jamba nemotron_h kimi_linear glm5_next_text moshi_depth zamba"),
]  # fmt: skip
KEYS = listed(
    "hidden_size num_attention_heads num_hidden_layers head_dim max_position_embeddings sliding_window "
    "use_sliding_window max_window_layers qk_rope_head_dim original_max_position_embeddings embed_dim "
    "no_rope_layer_interval rope_interleave attention_chunk_size local_attention attention_head_dim "
    "kv_channels use_mem_rope position_embedding_type rotary_dim memory_attention_hidden_size "
    "memory_attention_downsample_rate memory_attention_num_attention_heads position_embeddings_type "
    "rotary_embedding_base rope_theta max_target_positions block_size max_seq_len max_encoder_position_embeddings "
    "pad_token_id alibi relative_attention_num_buckets relative_attention_max_distance relative_attention"
)
PLAIN = {"rope_theta": 10000.0, "rope_type": "default"}
THETAS = listed(
    "rope_theta rotary_emb_base rope_local_base_freq global_rope_theta local_rope_theta swa_rope_theta "
    "compress_rope_theta rotary_embedding_base"
)
PROBES = [(key, 777.0) for key in THETAS] + [(key, 0.375) for key in ("partial_rotary_factor", "rotary_pct")]


def main() -> None:
    """Write the table."""
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    rows = {}
    for config in every_config():
        if config.model_type and config.model_type not in rows:
            rows[config.model_type] = row(type(config), config)
    lines = [f"  {json.dumps(name)}: {json.dumps(rows[name])}" for name in sorted(rows)]
    OUT.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(rows)} model types from transformers {transformers.__version__}")


def every_config() -> Iterator[Any]:
    """The default config of each registered type, each followed by its sub-configs."""
    for name in CONFIG_MAPPING:
        try:
            config = CONFIG_MAPPING[name]()
        except Exception as error:
            print(f"{name}: its default config does not build ({type(error).__name__})")
            continue
        yield from with_parts(config)


def with_parts(config: Any) -> Iterator[Any]:
    """A config and all its sub-configs, those of sub-configs too."""
    yield config
    for _, part in parts(config):
        yield from with_parts(part)


def parts(config: Any) -> list[tuple[str, Any]]:
    """The sub-configs that say what type they are."""
    named = getattr(type(config), "sub_configs", {}) or {}
    found = [(key, getattr(config, key, None) or build(kind)) for key, kind in named.items()]
    return [(key, part) for key, part in found if getattr(part, "model_type", "")]


def row(kind: type, config: Any) -> dict[str, Any]:
    """The facts of one model type that differ from the defaults of `Rule`."""
    package = kind.__module__.split(".")[-2]
    fields = {name: field.default for name, field in getattr(kind, "__dataclass_fields__", {}).items()}
    names = {ours: theirs for ours, theirs in (kind.attribute_map or {}).items() if ours in (*KEYS, "layer_types")}
    stated = {key: fields.get(names.get(key, key)) for key in KEYS if names.get(key, key) in fields}
    defaults = {key: value for key, value in stated.items() if isinstance(value, (int, float, str, bool))}
    facts: dict[str, Any] = {"names": names, "defaults": defaults}
    found = parts(config)
    if found:
        facts["parts"] = {key: part.model_type for key, part in found}
        text = config.get_text_config(decoder=True)
        facts["main"] = next((key for key, part in found if any(one is text for one in with_parts(part))), None)
    rope = getattr(config, "rope_parameters", None)
    if rope:
        facts |= rope_facts(kind, config, package)
    if isinstance(layer_types(config), list) and "num_hidden_layers" in (*defaults, *names):
        facts["cycle"] = cycle(kind, names.get("num_hidden_layers", "num_hidden_layers"))
    if config.model_type in NOPE:
        facts["nope"] = NOPE[config.model_type]
    if rope:
        facts["windows"] = windows(package, config, {*stated, *names})
        facts["null_head_dim"] = True if vars(config).get("head_dim", 0) is None else None
    more = STATED.get(config.model_type, {}) | without_rotation(config.model_type)
    facts |= {**more, "defaults": {**facts["defaults"], **more.get("defaults", {})}}
    if not facts.get("encoding"):
        facts = {key: facts[key] for key in ("parts", "main", "flat") if key in facts}
    return {key: value for key, value in facts.items() if value not in (None, {}, [])}


def without_rotation(model_type: str) -> dict[str, Any]:
    """The facts of a type in WITHOUT_ROTATION."""
    for encoding, table, types in WITHOUT_ROTATION:
        if model_type in types.split():
            return {"encoding": encoding, "table": table}
    return {}


def layer_types(config: Any) -> Any:
    """The types of the layers; None where there are none."""
    return getattr(config, "layer_types", None)


def rope_facts(kind: type, config: Any, package: str) -> dict[str, Any]:
    """The facts of a type that rotates."""
    rope = json.loads(json.dumps(config.rope_parameters))
    axial = rope.get("rope_type") == "axial" or config.model_type == "llama4_vision_model"
    facts: dict[str, Any] = {"encoding": "axial" if axial else "rotary", "rope": None if rope == PLAIN else rope}
    facts["share"] = reads_share(package, axial)
    facts["keys"] = {key: changed(kind, key, value) for key, value in PROBES}
    plain = {key: [key] for key in ("rope_theta", "partial_rotary_factor")}
    expected = {key: plain.get(key, []) for key in facts["keys"]}
    facts["keys"] = {key: where for key, where in facts["keys"].items() if where != expected[key]}
    facts["own_whole"] = True if not changed_alone(kind, "rope_theta") and changed(kind, "rope_theta", 777.0) else None
    facts["share_default"] = share_default(kind, rope)
    facts["unread"] = unread(kind, rope)
    for given in ("rope_scaling", "rope_parameters"):
        if is_per_layer(rope):
            facts[f"flat_{given}"] = reached(kind, given)
    facts["width"] = width(kind, config)
    if axial:
        return {**facts, "axes": "blocks", **AXIAL.get(package, {})}
    if config.model_type == "dots3_note_audio_encoder":
        return facts
    if package in INTERLEAVED | HALF_OUT | SWITCHED:
        facts["layout"] = "interleaved"
    if package in HALF_OUT | SWITCHED:
        facts["output"] = "half"
    if package in SWITCHED:
        facts["switch"] = "rope_interleave"
    if package in SOFTMAX:
        facts["softmax"] = True
    if package in SECTIONS and config.model_type not in ONE_AXIS:
        facts["axes"], facts["sections"] = SECTIONS[package]
    return facts


def build(kind: type, **given: Any) -> Any:
    """A config, or None where the class refuses the arguments."""
    try:
        return kind(**given)
    except Exception:
        return None


def changed(kind: type, key: str, value: float) -> list[str]:
    """Where in rope_parameters the value of a top-level key lands: "rope_theta" or "full_attention.rope_theta"."""
    for more in ({}, {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}):  # a class may hold a whole dict ready
        built = build(kind, **{key: value}, **more)
        found = [] if built is None else [path for path, found in leaves(built.rope_parameters) if found == value]
        if found:
            return sorted(found)
    return []


def changed_alone(kind: type, key: str) -> bool:
    """Whether a top-level key counts in a config without any rope keys."""
    built = build(kind, **{key: 777.0})
    return built is not None and 777.0 in [value for _, value in leaves(built.rope_parameters)]


def leaves(rope: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a dict of dicts with its path."""
    for key, value in rope.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{before}{key}.")
        else:
            yield before + key, value


def is_per_layer(rope: dict[str, Any]) -> bool:
    """Whether there is one dict for each layer type."""
    return any(isinstance(value, (dict, type(None))) for value in rope.values())


def share_default(kind: type, rope: dict[str, Any]) -> float | None:
    """The share that fills rope keys which are silent about it; None for the whole head."""
    keys = {"rope_type": "default", "rope_theta": 777.0}
    given = {label: dict(keys) for label in rope} if is_per_layer(rope) else keys
    built = build(kind, rope_parameters=given)
    found = {value for path, value in leaves(built.rope_parameters if built else {}) if path.endswith("rotary_factor")}
    return next((value for value in found if value != 1.0), None)


def unread(kind: type, rope: dict[str, Any]) -> list[str]:
    """The spellings that leave a flat dict of keys no trace in rope_parameters."""
    if is_per_layer(rope):
        return []
    keys = {"rope_type": "linear", "factor": 2.0, "rope_theta": 777.0}
    built = {name: build(kind, **{name: dict(keys)}) for name in ("rope_scaling", "rope_parameters")}
    return [name for name, one in built.items() if one is not None and one.rope_parameters.get("factor") != 2.0]


def reached(kind: type, given: str) -> list[str]:
    """The labels that a flat dict of keys reaches in a type that keeps one dict a label."""
    built = build(kind, **{given: {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}})
    if built is None:
        return ["error"]
    rope = built.rope_parameters
    return sorted(key for key, value in rope.items() if isinstance(value, dict) and value.get("rope_type") == "linear")


def reads_share(package: str, axial: bool) -> bool | None:
    """Whether the plain rope type of this package honours partial_rotary_factor; the scaled types always do."""
    found = [
        "partial_rotary_factor" in ast.unparse(node)
        for node in ast.walk(ast.parse(modelling_code(package)))
        if isinstance(node, ast.FunctionDef) and node.name == "compute_default_rope_parameters"
    ]
    return True if any(found) and not axial else None


def width(kind: type, config: Any) -> str | None:
    """The key that gives the width of the rotated head where it is not head_dim, hidden_size / num_attention_heads."""
    if not hasattr(config, "qk_rope_head_dim"):
        return None
    now = getattr(build(kind, qk_rope_head_dim=48) or config, "head_dim", None)
    return "qk_rope_head_dim" if now == 48 else None


def cycle(kind: type, layers: str) -> dict[str, Any] | list[str] | None:
    """The rule by which layer types follow from the number of layers, checked at three of them."""
    lists = []
    for count in (24, 31, 46):
        built = build(kind, **{layers: count})
        if built is None or len(layer_types(built) or []) != count:
            return None
        lists.append(list(layer_types(built)))
    if len({kind for one in lists for kind in one}) == 1:
        return {"rest": lists[0][0]}
    for every in range(2, 9):
        for at in range(every):
            rule = {"every": every, "at": at, "then": lists[0][at], "rest": lists[0][(at + 1) % every]}
            for last in (None, lists[0][-1]):
                if all(laid_out({**rule, "last": last}, len(one)) == one for one in lists):
                    return {**rule, **({"last": last} if last else {}), **interval(kind, every)}
    return None


def laid_out(rule: dict[str, Any], count: int) -> list[str]:
    """The layer types of `count` layers by a rule."""
    types = [rule["then"] if i % rule["every"] == rule["at"] else rule["rest"] for i in range(count)]
    return [*types[:-1], rule["last"]] if rule.get("last") else types


def interval(kind: type, every: int) -> dict[str, str]:
    """The key that sets the interval, where there is one."""
    for key in ("sliding_window_pattern", "global_attn_every_n_layers", "full_attention_interval", "layer_group_size",
                "no_rope_layer_interval"):  # fmt: skip
        built = build(kind, **{key: every + 1, "num_hidden_layers": 24})
        types = layer_types(built) if built is not None else None
        if types and types != layer_types(build(kind, num_hidden_layers=24)):
            return {"key": key}
    return {}


def windows(package: str, config: Any, known: set[str]) -> str | None:
    """Which layers have a window: by layer type, all, those past max_window_layers, or none."""
    if not known & {"sliding_window", "local_attention"} or "sliding_window" not in modelling_code(package):
        return None
    if "max_window_layers" in known:
        return "switched"
    return "layers" if layer_types(config) else "all"


def modelling_code(package: str) -> str:
    """The text of a package's modelling files."""
    folder = Path(importlib.util.find_spec(f"transformers.models.{package}").origin).parent
    return "".join(path.read_text() for path in folder.glob("modeling_*.py"))


if __name__ == "__main__":
    main()
