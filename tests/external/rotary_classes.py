"""Every rotary position encoding of transformers, one peer for each (config, rotary class) pair that a model uses.

The walk takes the default config of every registered model type, descends into its sub-configs, and finds the rotary
class that the model builds from each. `PYTHONPATH=tests python -m external.rotary_classes` says what it reaches.
"""

import copy
import importlib
import inspect
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType

import torch
import transformers.models
from external.rotary_adapters import WITHOUT_CLASS, Adapter, Source, adapter_of
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor
from transformers import CONFIG_MAPPING, PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.utils import logging

ROTARY = re.compile(r"^class (\w*(?:Rotary|RopePosition|RopeAttention)\w*)\(", re.M)

# The configs a rotary class is built from, where its own annotation names another one.
BUILT_FROM = {
    "BltRotaryEmbedding": [
        "BltLocalEncoderConfig", "BltLocalDecoderConfig", "BltGlobalTransformerConfig", "BltPatcherConfig",
    ],
    "ClvpRotaryPositionalEmbedding": ["ClvpEncoderConfig"],
    "CsmRotaryEmbedding": ["CsmConfig", "CsmDepthDecoderConfig"],
    "DeepseekOcr2VisionRotaryEmbedding": ["DeepseekOcr2VisionEncoderConfig"],
    "DiaRotaryEmbedding": ["DiaEncoderConfig", "DiaDecoderConfig"],
    "Emu3RotaryEmbedding": ["Emu3TextConfig"],
    "GlmAsrRotaryEmbedding": ["GlmAsrEncoderConfig"],
    "MiniMaxM3VLRotaryEmbedding": ["MiniMaxM3VLTextConfig"],
    "MuseGlimmerTextRotaryEmbedding": ["MuseGlimmerTextConfig"],
    "MuseSparkTextRotaryEmbedding": ["MuseSparkTextConfig"],
    "Nemotron3_5TranscribeRotaryEmbedding": [
        "Nemotron3_5TranscribeAsrAudioConfig", "Nemotron3_5TranscribeWordTimestampConfig",
    ],
    "Nemotron3DiarizationRotaryEmbedding": ["Nemotron3DiarizationAudioConfig"],
    "PaddleOCRRotaryEmbedding": ["PaddleOCRTextConfig"],
    "Qwen2_5OmniRotaryEmbedding": ["Qwen2_5OmniTextConfig", "Qwen2_5OmniTalkerConfig"],
    "Qwen2_5_VLRotaryEmbedding": ["Qwen2_5_VLTextConfig"],
    "Qwen2VLRotaryEmbedding": ["Qwen2VLTextConfig"],
    "Qwen3OmniMoeRotaryEmbedding": ["Qwen3OmniMoeTalkerCodePredictorConfig", "Qwen3OmniMoeCode2WavConfig"],
    "Qwen3OmniMoeTalkerRotaryEmbedding": ["Qwen3OmniMoeTalkerTextConfig"],
    "SeamlessM4TConformerRotaryPositionalEmbedding": ["SeamlessM4TConfig"],
    "Step3p7RotaryEmbedding": ["Step3p7TextConfig"],
    "T5Gemma2RotaryEmbedding": ["T5Gemma2TextConfig", "T5Gemma2DecoderConfig"],
    "T5GemmaRotaryEmbedding": ["T5GemmaModuleConfig"],
    "VoxtralRealtimeRotaryEmbedding": ["VoxtralRealtimeEncoderConfig", "VoxtralRealtimeTextConfig"],
    "Wav2Vec2BertRotaryPositionalEmbedding": ["Wav2Vec2BertConfig"],
    "Wav2Vec2ConformerRotaryPositionalEmbedding": ["Wav2Vec2ConformerConfig"],
}  # fmt: skip

PACKAGES = {"internlm3": "llama", "iquestcoder": "llama"}  # these have a config and no modeling file of their own
ALIASES = {"InternLM3Config": "LlamaConfig", "IQuestCoderConfig": "LlamaConfig"}

NOT_WALKED_CLASSES = {  # what integers times frequencies cannot say
    "EsmFold2RotaryEmbedding": "float atom coordinates and a residue id, each with frequencies of its own",
    "MusicFlamingoRotaryEmbedding": "timestamps in seconds, in float64",
    "DINOv3ViTRopePositionEmbedding": "float patch centres in [-1, 1]",
    "EomtDinov3RotaryEmbedding": "float patch centres in [-1, 1]",
    "Sapiens2RopePositionEmbedding": "float patch centres in [-1, 1]",
    "VJEPA2RopeAttention": "pairs neighbours but tiles the frequencies half-wise, so it is no rotation",
}

NOT_WALKED = {
    **dict.fromkeys(["dinov3_vit", "eomt_dinov3", "sapiens2"], "float patch centres in [-1, 1], not integer positions"),
    "vjepa2": "pairs neighbours but tiles the frequencies half-wise, so it is no rotation",
    "lightglue": "the angles are a learned projection of float keypoints",
    "gemma4_assistant": "its default config does not pass its own validation",
    **dict.fromkeys(
        ["jamba", "nemotron_h", "parakeet_ctc", "parakeet_encoder", "parakeet_rnnt", "parakeet_tdt",
         "nemotron_asr_streaming", "nemotron_asr_streaming_encoder"],
        "the file has an apply function that nothing calls",
    ),
    "glm5_next_text": "no positions in text (NoPE)",
    "inkling2_text": "relative logits in text",
    "moshi_depth": "the depth decoder is built with use_rope=False",
    "clvp_decoder": "learned absolute positions",
    "sapiens2_head": "a segmentation head",
    **dict.fromkeys(
        ["cosmos3_edge_vision", "glm_image_vision", "granite_docling_vision", "hunyuan_vl_vision", "idefics_vision",
         "idefics_perciever", "mllama_vision_model", "molmo2_vision", "molmo2_adapter", "phi4_multimodal_vision",
         "deepseek_ocr2_sam_vision_model", "unlimited_ocr_sam_vision_model", "unlimited_ocr_vision",
         "unlimited_ocr_vision_encoder", "gemma3n_vision", "gemma4_unified_vision"],
        "an image tower with learned absolute positions, or none",
    ),
    **dict.fromkeys(
        ["gemma3n_audio", "gemma4_audio", "gemma4_unified_audio", "moonshine_streaming_encoder", "muse_spark_audio",
         "phi4_multimodal_audio", "qwen2_5_omni_audio_encoder", "qwen2_5_omni_bigvgan",
         "qwen3_omni_moe_audio_encoder"],
        "an audio tower with another encoding, or none",
    ),
    **dict.fromkeys(["chameleon_vqgan", "emu3_vqgan", "glm_image_vqmodel"], "an image tokenizer"),
    **dict.fromkeys(
        ["edgetam_video_mask_decoder", "edgetam_video_prompt_encoder", "sam2_video_mask_decoder",
         "sam2_video_prompt_encoder", "sam3_tracker_video_mask_decoder", "sam3_tracker_video_prompt_encoder",
         "sam3_detr_decoder", "sam3_detr_encoder", "sam3_geometry_encoder", "sam3_mask_decoder"],
        "a part of SAM with sine positions, or none",
    ),
}  # fmt: skip

# What a default config must be told before its model builds the rotary class at all, or before the class can run.
SETTINGS = {
    "EsmConfig": {"position_embedding_type": "rotary"},
    "GraniteMoeHybridConfig": {"position_embedding_type": "rope"},
    "Zamba2Config": {"use_mem_rope": True},
    "SeamlessM4TConfig": {"position_embeddings_type": "rotary"},
    "Wav2Vec2BertConfig": {"position_embeddings_type": "rotary"},
    "Wav2Vec2ConformerConfig": {"position_embeddings_type": "rotary"},
    "Glm4vTextConfig": {"rope_parameters": {"mrope_section": [16, 24, 24]}},
    "Glm4MoeConfig": {"head_dim": 128},  # the default heads are 42 and 73 wide: an odd number of features would turn
    "Glm4vMoeTextConfig": {"head_dim": 128},
    "Qwen3OmniMoeTextConfig": {"head_dim": 128},
    "GlmImageTextConfig": {"rope_parameters": {"mrope_section": [16, 24, 24]}},
    "HunYuanVLTextConfig": {"rope_parameters": {"mrope_section": [16, 16, 16, 16]}},
    "CohereCompassTextConfig": {"rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 50_000.0, "mrope_section": [24, 20, 20]},
    }},
}  # fmt: skip

# What tells two configs of one type apart, as far as rotary is concerned.
TELLING = re.compile(
    "rope|rotary|theta|head|hidden_size|embed|projection|layer_types|no_rope|image_size|patch_size|aggregation"
)


@dataclass
class Peer:
    """One rotary class of transformers as one model type builds it, for one label of its layers.

    `positions`, everywhere: int64 [T], the same for every axis, or [axes, T], within `reach`; axes in the order in
    which the class takes them: time, height, width in text with M-RoPE, height, width in images.
    """

    model_types: tuple[str, ...]  # every registered type that reaches this pair, by itself or through a sub-config
    config: PreTrainedConfig  # the leaf config, with SETTINGS
    path: str  # where the first of them has it: "text_config", or "" for itself
    label: str | None  # "sliding_attention", "main", ..; None where all layers share one table
    axes: int  # coordinates of a position
    inv_freq: Tensor | None  # the module's own buffer [P or fewer]; None where the file keeps a table only
    kind: str  # the rotary class, or the file's function
    head_dim: int  # D of what `rotate` takes
    reach: range  # the coordinates that the class can express
    note: str  # what is unusual: a setting, a part that is not rotated
    source: Source = field(repr=False)
    adapter: Adapter = field(repr=False)

    def tables(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """The model's own cos and sin, float32 [T, P], attention scaling inside, what it repeats dropped."""
        cos, sin = self.adapter.halve(self._ask(positions))
        return cos.float(), sin.float()

    def rotate(self, q: Tensor, k: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """q [1, H, T, D] and k [1, K, T, D] through the function that the model's attention calls."""
        return self.adapter.apply(self.source, q.clone(), k.clone(), self._ask(positions))

    def _ask(self, positions: Tensor):
        with torch.no_grad():
            return self.adapter.ask(self.source, positions.expand(self.axes, -1))


@dataclass
class Walk:
    """What the walk found: the peers, and what could not be built, (model type, path, class, why)."""

    peers: list[Peer] = field(default_factory=list)
    failures: list[tuple[str, str, str, str]] = field(default_factory=list)

    def reached(self) -> set[str]:
        """The model types that reach a peer."""
        return {name for peer in self.peers for name in peer.model_types}


def peers() -> list[Peer]:
    """Every pair, in the order of the model types."""
    return walk().peers


@cache
def walk() -> Walk:
    """Take every registered model type down to its rotary classes, without the noise of their default configs."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        return _walk()
    finally:
        logging.set_verbosity(verbosity)


def _walk() -> Walk:
    found: dict[tuple, list[Peer]] = {}
    result = Walk()
    for model_type in CONFIG_MAPPING_NAMES:
        for path, config in leaves(default_config(model_type)):
            for name in rotary_of(config):
                key = (name, type(config).__name__, telling(config))
                if key not in found:
                    found[key] = list(_tried(result, model_type, path, name, config))
                for peer in found[key]:
                    _add(peer, model_type, path)
    result.peers = [peer for group in found.values() for peer in group]
    return result


def _tried(result: Walk, model_type: str, path: str, name: str, config: PreTrainedConfig) -> Iterator[Peer]:
    try:
        yield from build(name, with_settings(config))
    except Exception as error:  # the walk goes on, and the test says what failed
        result.failures.append((model_type, path, name, f"{type(error).__name__}: {error}"))


def _add(peer: Peer, model_type: str, path: str) -> None:
    """Note that `model_type` reaches `peer`; the one with the shortest path comes first."""
    others = tuple(name for name in peer.model_types if name != model_type)
    if not peer.model_types or len(path) < len(peer.path):
        peer.path, peer.model_types = path, (model_type, *others)
    elif model_type not in peer.model_types:
        peer.model_types += (model_type,)


def default_config(model_type: str) -> PreTrainedConfig | None:
    """The config that the type's class makes without arguments; None where it makes none."""
    try:
        return CONFIG_MAPPING[model_type]()
    except (ValueError, StrictDataclassError):
        return None


def leaves(config: PreTrainedConfig | None, path: str = "") -> Iterator[tuple[str, PreTrainedConfig]]:
    """The config and, below it, every sub-config, with its path."""
    if config is None:
        return
    yield path, config
    for name, value in vars(config).items():
        if isinstance(value, PreTrainedConfig):
            yield from leaves(value, f"{path}.{name}".lstrip("."))


def with_settings(config: PreTrainedConfig) -> PreTrainedConfig:
    """A copy that SETTINGS has been applied to."""
    config = copy.deepcopy(config)
    for name, value in SETTINGS.get(type(config).__name__, {}).items():
        old = getattr(config, name, None)
        setattr(config, name, {**(old or {}), **value} if isinstance(value, dict) else value)
    return config


def telling(config: PreTrainedConfig) -> str:
    """The part of a config that rotary could depend on, to tell equal ones."""
    shown = {key: value for key, value in config.to_dict().items() if TELLING.search(key)}
    return json.dumps(shown, sort_keys=True, default=str)


def rotary_of(config: PreTrainedConfig) -> list[str]:
    """The rotary classes that a model builds from this very config."""
    names = {parent.__name__ for parent in type(config).__mro__}
    if names & set(WITHOUT_CLASS):
        return [type(config).__name__]
    names |= {ALIASES[name] for name in names & set(ALIASES)}
    return [kind for kind, configs in rotary_classes(package_of(type(config))).items() if names & configs]


def package_of(kind: type[PreTrainedConfig]) -> str:
    """The folder of transformers.models whose modeling file serves a config."""
    package = kind.__module__.split(".")[2]
    return PACKAGES.get(package, package)


@cache
def rotary_classes(package: str) -> dict[str, set[str]]:
    """The rotary classes of a package and the configs that its models build each from."""
    if not has_rotary(package):
        return {}  # without an import, which takes long
    kinds = {name: kind for name, kind in vars(code_of(package)).items() if ROTARY.match(f"class {name}(")}
    return {name: built_from(kind) for name, kind in kinds.items() if name not in NOT_WALKED_CLASSES}


def built_from(kind: type) -> set[str]:
    """The names of the configs that models build a rotary class from: BUILT_FROM, or its annotation."""
    if kind.__name__ in BUILT_FROM:
        return set(BUILT_FROM[kind.__name__])
    annotation = next(iter(inspect.signature(kind).parameters.values())).annotation
    return {getattr(annotation, "__name__", str(annotation))}


@cache
def modeling_file(package: str) -> Path | None:
    """The modeling file of a package, the one with a rotary class if there are many."""
    files = sorted((Path(transformers.models.__file__).parent / package).glob("modeling_*.py"))
    return next((file for file in files if ROTARY.search(file.read_text(encoding="utf8"))), next(iter(files), None))


def has_rotary(package: str) -> bool:
    """Whether a package has a rotary class of its own."""
    file = modeling_file(package)
    return file is not None and ROTARY.search(file.read_text(encoding="utf8")) is not None


@cache
def code_of(package: str) -> ModuleType:
    """The modeling file of a package, imported."""
    return importlib.import_module(f"transformers.models.{package}.{modeling_file(package).stem}")


def build(name: str, config: PreTrainedConfig) -> Iterator[Peer]:
    """The peers of one rotary class built from one config, one for each label of its layers."""
    code = code_of(package_of(type(config)))
    if name in WITHOUT_CLASS:
        yield make(name, WITHOUT_CLASS[name], Source(code, None, config, None))
        return
    module = getattr(code, name)(copy.deepcopy(config))  # building one rewrites config.rope_parameters
    for label in labels_of(module):
        yield make(name, adapter_of(module, label), Source(code, module, config, label))


def labels_of(module: torch.nn.Module) -> list[str | None]:
    """The layer types for which a module has frequencies of their own."""
    named = [name.removesuffix("_inv_freq") for name in dict(module.named_buffers()) if name.endswith("_inv_freq")]
    return [name for name in named if not name.endswith("original")] or [None]


def make(name: str, adapter: Adapter, source: Source) -> Peer:
    """A peer, asked once to know its width."""
    settings = SETTINGS.get(type(source.config).__name__)
    notes = [f"set on the default config: {settings}" if settings else "", adapter.note]
    peer = Peer(
        model_types=(), config=source.config, path="", label=source.label, axes=adapter.axes(source),
        inv_freq=frequencies(source), kind=name, head_dim=0, reach=adapter.reach(source),
        note="; ".join(filter(None, notes)), source=source, adapter=adapter,
    )  # fmt: skip
    cos, _ = peer.tables(torch.tensor([peer.reach.start]))
    peer.head_dim = head_dim(source.config, source.label, adapter, 2 * cos.shape[-1])
    return peer


def frequencies(source: Source) -> Tensor | None:
    """The module's own buffer for the label."""
    name = "inv_freq" if source.label is None else f"{source.label}_inv_freq"
    return getattr(source.module, name, None)


def head_dim(config: PreTrainedConfig, label: str | None, adapter: Adapter, rotated: int) -> int:
    """What `rotate` takes: the rotated part in MLA, the whole head where attention rotates a part of it."""
    rope = getattr(config, "rope_parameters", None) or {}
    rope = rope.get(label) or rope
    full = hasattr(config, "qk_rope_head_dim") or rope.get("rope_type") == "proportional"  # tables as wide as the head
    if not adapter.wide and (full or "partial_rotary_factor" not in rope):
        return rotated
    return max(rotated, getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def unreached() -> set[str]:
    """The model types of a package that has a rotary class, and that reach no peer."""
    reached = walk().reached()
    packages = {name: package_of(CONFIG_MAPPING[name]) for name in CONFIG_MAPPING_NAMES if name not in reached}
    return {name for name, package in packages.items() if has_rotary(package)}


def problem(peer: Peer, tokens: int = 64) -> str:
    """What goes wrong when a peer is asked for some tokens; empty if nothing does."""
    positions = torch.arange(peer.reach.start, min(peer.reach.stop, peer.reach.start + tokens))
    q, k = (torch.randn(1, heads, len(positions), peer.head_dim) for heads in (4, 2))
    try:
        tables, turned = peer.tables(positions), peer.rotate(q, k, positions)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    shapes = [t.shape == (len(positions), tables[0].shape[-1]) and t.dtype == torch.float32 for t in tables]
    moved = [new.shape == old.shape and not torch.equal(new, old) for new, old in zip(turned, (q, k), strict=True)]
    return "" if all(shapes + moved) else "tables or rotation have the wrong shape, or nothing moves"


def main() -> None:
    """Say what the walk reaches, and what fails."""
    start = time.monotonic()
    result = walk()
    failed = [
        *result.failures,
        *((*p.model_types[:1], p.path, p.kind, why) for p in result.peers if (why := problem(p))),
    ]
    for line in [f"FAILED {failure}" for failure in failed]:
        print(line)
    for peer in filter(lambda peer: peer.note, result.peers):
        print(f"{peer.kind} of {peer.model_types[0]}: {peer.note}")
    print(f"no peer and no reason: {sorted(unreached() - set(NOT_WALKED))}")
    print(f"a reason and a peer: {sorted(result.reached() & set(NOT_WALKED))}")
    print(f"{len(result.reached())} model types, {len(result.peers)} pairs, {len(failed)} failed, ", end="")
    print(f"{len(NOT_WALKED)} not walked, {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
