"""How to ask each kind of transformers rotary class for its tables, and how to rotate with the model's own function.

Axis letters: H heads, T tokens, D what is handed to the model's apply function, P pairs, A coordinates of a position.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor

Raw = Any  # what the model computes once per forward and hands to its attention layers
Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Source:
    """Where a table comes from: the modeling file, the rotary module (None: the file has functions only), its label."""

    code: ModuleType
    module: torch.nn.Module | None
    config: Any
    label: str | None

    def axes(self) -> int:
        """How many coordinates a position has in classes with sections: M-RoPE's three, or what the sections say."""
        sections = self.module.mrope_section
        sections = sections[self.label] if isinstance(sections, dict) else sections
        return len(sections)


@dataclass(frozen=True)
class Adapter:
    """One way of calling: positions int64 [A, T] in, the model's own tables out, then halved or applied."""

    ask: Callable[[Source, Tensor], Raw]
    halve: Callable[[Raw], Pair]
    apply: Callable[[Source, Tensor, Tensor, Raw], Pair]
    axes: Callable[[Source], int] = lambda source: 1
    wide: bool = False  # attention rotates a part of the head, though the config has no partial_rotary_factor
    reach: Callable[[Source], range] = lambda source: range(2**24)  # the coordinates that it can express
    note: str = ""


# -- ask: positions [A, T] to what the model hands to its attention ------------------------------------------------


def plain(source: Source, positions: Tensor) -> Raw:
    """forward(x, position_ids [1, T])."""
    return source.module(torch.zeros(1), positions[:1])


def by_layer(source: Source, positions: Tensor) -> Raw:
    """forward(x, position_ids [1, T], layer_type)."""
    return source.module(torch.zeros(1), positions[:1], source.label)


def by_section(source: Source, positions: Tensor) -> Raw:
    """forward(x, position_ids [A, 1, T]), one row of positions an axis (M-RoPE)."""
    extra = () if source.label is None else (source.label,)
    return source.module(torch.zeros(1), positions[:, None], *extra)


def by_patch(source: Source, positions: Tensor) -> Raw:
    """forward(x, position_ids [T, A]), one row a patch."""
    return source.module(torch.zeros(1), positions.T)


def by_patch_in_batch(source: Source, positions: Tensor) -> Raw:
    """forward(x, position_ids [1, T, A]) (Gemma 4); its apply function wants the positions again."""
    batched = positions.T[None]
    return *source.module(torch.zeros(1), batched), batched


def by_length(source: Source, positions: Tensor) -> Raw:
    """forward(hidden_states) makes the table of a whole sequence, [2, T, 1, 1, D] (conformers)."""
    length = int(positions.max()) + 1
    return source.module(torch.zeros(1, length, 1))[:, positions[0]]


def angles_by_length(source: Source, positions: Tensor) -> Raw:
    """forward(hidden_states) makes the angles of a whole sequence, [1, T, D] (CLVP); attention picks by position."""
    angles = source.module(torch.zeros(1, int(positions.max()) + 1, 1))
    return angles.cos().squeeze(0), angles.sin().squeeze(0), positions[:1]


def on_patch_grid(source: Source, positions: Tensor) -> Raw:
    """A fixed table of image_size / patch_size squared patches, coordinates (x, y) from 1 (Llama 4 vision)."""
    side = source.config.image_size // source.config.patch_size
    x, y = positions - 1
    return source.module(torch.zeros(1))[y * side + x]


def on_feature_map(source: Source, positions: Tensor) -> Raw:
    """forward(features [.., height, width]) makes a grid, coordinates (row, column) from 1 (EfficientLoFTR)."""
    kernel, stride = source.config.q_aggregation_kernel_size, source.config.q_aggregation_stride
    height, width = ((int(n) - 1) * stride + kernel for n in positions.max(dim=1).values)
    row, column = positions - 1
    return tuple(table[:, row, column] for table in source.module(torch.zeros(1, 1, height, width)))


def sinusoidal_function(source: Source, positions: Tensor) -> Raw:
    """create_sinusoidal_positions(length, rotary_dim), sine half then cosine half (GPT-J, CodeGen)."""
    dim = source.config.rotary_dim or source.config.hidden_size
    sin, cos = source.code.create_sinusoidal_positions(int(positions.max()) + 1, dim)[positions[0]].chunk(2, dim=-1)
    return cos[None], sin[None]


def sinusoidal_embedding(source: Source, positions: Tensor) -> Raw:
    """The rows of a frozen sinusoidal embedding, sine half then cosine half (RoFormer)."""
    width = source.config.hidden_size // source.config.num_attention_heads
    embedding = source.code.RoFormerSinusoidalPositionalEmbedding(int(positions.max()) + 1, width)
    return embedding.create_weight()[positions[0]]


# -- halve: to cos, sin of [T, P] ----------------------------------------------------------------------------------


def whole(raw: Raw) -> Pair:
    """The model keeps one column a pair already."""
    cos, sin = raw[:2]
    return cos.flatten(0, -2), sin.flatten(0, -2)


def halves(raw: Raw) -> Pair:
    """The second half of the columns repeats the first."""
    return tuple(_once(table.chunk(2, dim=-1)) for table in whole(raw))


def repeats(raw: Raw) -> Pair:
    """Every column stands twice, side by side."""
    return tuple(_once((table[..., 0::2], table[..., 1::2])) for table in whole(raw))


def halves_by_axis(raw: Raw) -> Pair:
    """Each axis has its own chunk, and repeats within it (Gemma 4 vision)."""
    return tuple(torch.cat([_once(axis.chunk(2, dim=-1)) for axis in t.chunk(2, dim=-1)], -1) for t in whole(raw))


def complexes(raw: Raw) -> Pair:
    """cos + i sin."""
    return raw.real.flatten(0, -2).contiguous(), raw.imag.flatten(0, -2).contiguous()


def sine_first(raw: Raw) -> Pair:
    """[T, 2P], sine half then cosine half."""
    sin, cos = raw.chunk(2, dim=-1)
    return cos, sin


def picked(raw: Raw) -> Pair:
    """cos, sin of a whole sequence, and the positions that attention picks."""
    cos, sin, positions = raw
    return halves((cos[positions[0]], sin[positions[0]]))


def _once(copies: tuple[Tensor, ...]) -> Tensor:
    """The one table of which `copies` are copies; a table of another form is an error of this file.

    They are no bit-for-bit copies: torch's cosine at the end of a tensor, past the last full vector, rounds otherwise.
    """
    first, second = copies
    assert torch.allclose(first, second, rtol=0, atol=1e-6), "the columns do not repeat as this adapter says"
    return first.contiguous()


# -- apply: q [1, H, T, D], k [1, K, T, D] through the function that the attention class calls ----------------------


def called(name: str, **extra: int) -> Callable[[Source, Tensor, Tensor, Raw], Pair]:
    """A function of the file that takes q, k and what was asked, heads before tokens."""

    def apply(source: Source, q: Tensor, k: Tensor, raw: Raw) -> Pair:
        return getattr(source.code, name)(q, k, *(raw if isinstance(raw, tuple) else [raw]), **extra)

    return apply


together = called("apply_rotary_pos_emb")


def interleave(source: Source, q: Tensor, k: Tensor, raw: Raw) -> Pair:
    """MLA: apply_rotary_pos_emb_interleave takes neighbours and returns halves, unless rope_interleave says no."""
    if not getattr(source.config, "rope_interleave", True):
        return together(source, q, k, raw)
    return source.code.apply_rotary_pos_emb_interleave(q, k, *raw)


def one_by_one(source: Source, q: Tensor, k: Tensor, raw: Raw) -> Pair:
    """apply_rotary_pos_emb(x, cos, sin), q and k each."""
    return tuple(source.code.apply_rotary_pos_emb(x, *raw) for x in (q, k))


def sliced(source: Source, q: Tensor, k: Tensor, raw: Raw) -> Pair:
    """Attention cuts the leading columns off, rotates them and joins the rest (Phi, StableLM, Persimmon)."""
    width = raw[0].shape[-1]
    turned = source.code.apply_rotary_pos_emb(q[..., :width], k[..., :width], *raw)
    return tuple(torch.cat((new, old[..., width:]), dim=-1) for new, old in zip(turned, (q, k), strict=True))


def sliced_with_values(source: Source, q: Tensor, k: Tensor, raw: Raw) -> Pair:
    """As `sliced`; the function takes values too, and positions (CLVP)."""
    width = raw[0].shape[-1]
    turned = source.code.apply_rotary_pos_emb(q[..., :width], k[..., :width], k[..., :width], *raw)
    return tuple(torch.cat((new, old[..., width:]), dim=-1) for new, old in zip(turned, (q, k), strict=False))


def tokens_first(source: Source, q: Tensor, k: Tensor, raw: Raw) -> Pair:
    """apply_rotary_pos_emb_vision of q [T, H, D], the patches of all images in one row."""
    turned = source.code.apply_rotary_pos_emb_vision(q[0].transpose(0, 1), k[0].transpose(0, 1), *raw)
    return tuple(x.transpose(0, 1)[None] for x in turned)


def many_axes(source: Source, q: Tensor, k: Tensor, raw: Raw) -> Pair:
    """apply_multidimensional_rope of q [1, T, H, D] (Gemma 4 vision)."""
    return tuple(source.code.apply_multidimensional_rope(x.transpose(1, 2), *raw).transpose(1, 2) for x in (q, k))


def tokens_before_heads(name: str) -> Callable[[Source, Tensor, Tensor, Raw], Pair]:
    """A function of the file that takes q [1, T, H, D], k and a complex table (Llama 4)."""

    def apply(source: Source, q: Tensor, k: Tensor, raw: Raw) -> Pair:
        turned = getattr(source.code, name)(q.transpose(1, 2), k.transpose(1, 2), raw)
        return tuple(x.transpose(1, 2) for x in turned)

    return apply


def first_head_only(source: Source, q: Tensor, k: Tensor, raw: Raw) -> Pair:
    """Qwen2.5-Omni's DiT turns head 0 alone, and moves its neighbours into halves first."""
    heads = [source.code.deinterleave_head_dim(x[:, :1]) for x in (q, k)]
    turned = source.code.apply_rotary_pos_emb(*heads, *raw)
    return tuple(torch.cat((new, old[:, 1:]), dim=1) for new, old in zip(turned, (q, k), strict=True))


def all_heads_as_one(source: Source, q: Tensor, k: Tensor, raw: Raw) -> Pair:
    """apply_rotary_pos_emb of [1, T, 1, hidden], before the heads are split (EfficientLoFTR)."""
    turned = source.code.apply_rotary_pos_emb(q.transpose(1, 2), k.transpose(1, 2), *raw, unsqueeze_dim=2)
    return tuple(x.transpose(1, 2) for x in turned)


def hidden_states(source: Source, q: Tensor, k: Tensor, raw: Raw) -> Pair:
    """Conformers rotate the hidden state [1, T, H * D] before it is projected to queries and keys."""
    attention = next(c for c in vars(source.code).values() if hasattr(c, "_apply_rotary_embedding"))
    return tuple(_hidden_state(attention, x, raw) for x in (q, k))


def _hidden_state(attention: type, x: Tensor, raw: Raw) -> Tensor:
    _, heads, tokens, width = x.shape
    flat = x.transpose(1, 2).reshape(1, tokens, heads * width)
    turned = attention._apply_rotary_embedding(SimpleNamespace(num_heads=heads, head_size=width), flat, raw)
    return turned.view(1, tokens, heads, width).transpose(1, 2)


def sine_before_cosine(source: Source, q: Tensor, k: Tensor, raw: Raw) -> Pair:
    """apply_rotary_pos_emb(x [1, T, H, rotary_dim], sin, cos), the rest joined by attention (GPT-J, CodeGen)."""
    cos, sin = raw
    width = source.config.rotary_dim or q.shape[-1]
    cut = [x.transpose(1, 2)[..., :width] for x in (q, k)]
    turned = [source.code.apply_rotary_pos_emb(x, sin, cos).transpose(1, 2) for x in cut]
    return tuple(torch.cat((new, old[..., width:]), dim=-1) for new, old in zip(turned, (q, k), strict=True))


def of_attention_class(source: Source, q: Tensor, k: Tensor, raw: Raw) -> Pair:
    """RoFormerSelfAttention's static method."""
    return source.code.RoFormerSelfAttention.apply_rotary_position_embeddings(raw[None, None], q, k)


# -- which class is of which kind ----------------------------------------------------------------------------------


def axes(count: int) -> Callable[[Source], int]:
    """A fixed number of coordinates."""
    return lambda source: count


def patches_a_side(source: Source) -> range:
    """The patches of a row, counted from 1."""
    return range(1, source.config.image_size // source.config.patch_size + 1)


def up_to_maximum(source: Source) -> range:
    """The rows of the table that the model makes once."""
    return range(source.config.max_position_embeddings)


PLAIN = Adapter(plain, halves, together)
LAYERED = Adapter(by_layer, halves, together)
SECTIONS = Adapter(by_section, halves, together, Source.axes)
PATCHES = Adapter(by_patch, halves, tokens_first, axes(2))

INTERLEAVED = Adapter(plain, repeats, together)
INTERLEAVED_SECTIONS = Adapter(by_section, repeats, together, Source.axes)
HALF_WIDTH = Adapter(plain, whole, together)
MLA = Adapter(plain, halves, interleave)
LAYERED_MLA = Adapter(by_layer, halves, interleave)
LAYERED_SINGLES = Adapter(by_layer, halves, one_by_one)
SLICED = Adapter(plain, halves, sliced)
CONFORMER = Adapter(
    by_length, halves, hidden_states, reach=lambda source: range(2**14),
    note="the hidden state is rotated, before q and k are projected",
)  # fmt: skip
SINUSOIDAL = Adapter(sinusoidal_function, whole, sine_before_cosine, wide=True, reach=up_to_maximum)

BY_CLASS = {
    **dict.fromkeys(
        ["BltRotaryEmbedding", "CohereRotaryEmbedding", "Cohere2RotaryEmbedding", "Cohere2MoeRotaryEmbedding"],
        INTERLEAVED,
    ),
    **dict.fromkeys(
        ["Glm4vTextRotaryEmbedding", "GlmOcrTextRotaryEmbedding", "Ernie4_5_VLMoeTextRotaryEmbedding"],
        INTERLEAVED_SECTIONS,
    ),
    **dict.fromkeys(["GptOssRotaryEmbedding", "OpenAIPrivacyFilterRotaryEmbedding"], HALF_WIDTH),
    **dict.fromkeys(
        ["AXK1RotaryEmbedding", "AXK2RotaryEmbedding", "BailingHybridRotaryEmbedding", "DeepseekV3RotaryEmbedding",
         "DeepseekV32RotaryEmbedding", "Glm4MoeLiteRotaryEmbedding", "GlmMoeDsaRotaryEmbedding",
         "LongcatFlashRotaryEmbedding", "Mistral4RotaryEmbedding", "MistralLarge4TextRotaryEmbedding",
         "YoutuRotaryEmbedding"],
        MLA,
    ),
    "Dots3NoteTextRotaryEmbedding": LAYERED_MLA,
    **dict.fromkeys(
        ["Gemma3nRotaryEmbedding", "Gemma4TextRotaryEmbedding", "Gemma4UnifiedTextRotaryEmbedding",
         "DiffusionGemmaTextRotaryEmbedding"],
        LAYERED_SINGLES,
    ),
    "DeepseekV4RotaryEmbedding": Adapter(
        by_layer, whole, one_by_one, wide=True, note="the trailing columns of the head are rotated",
    ),
    "HunYuanVLRotaryEmbedding": Adapter(
        plain, halves, together,
        note="text tokens only, equal on every axis: else the two members of a pair turn by different axes' angles",
    ),
    "NeoMMERotaryEmbedding": Adapter(by_section, halves, together, axes(2)),
    **dict.fromkeys(
        ["PhiRotaryEmbedding", "StableLmRotaryEmbedding", "PersimmonRotaryEmbedding",
         "GPTNeoXJapaneseRotaryEmbedding"],
        SLICED,
    ),
    "DeepseekV2RotaryEmbedding": Adapter(plain, complexes, called("apply_rotary_emb")),
    "Llama4TextRotaryEmbedding": Adapter(plain, complexes, tokens_before_heads("apply_rotary_emb")),
    "Llama4VisionRotaryEmbedding": Adapter(
        on_patch_grid, complexes, tokens_before_heads("vision_apply_rotary_emb"), axes(2), reach=patches_a_side,
        note="coordinates (x, y) count from 1; the class token, at angle 0, is left out",
    ),
    "Gemma4VisionRotaryEmbedding": Adapter(by_patch_in_batch, halves_by_axis, many_axes, axes(2)),
    "PixtralVisionRotaryEmbedding": Adapter(
        by_patch, halves, called("apply_rotary_pos_emb", unsqueeze_dim=0), axes(2),
    ),
    "MiniMaxM3VLVisionRotaryEmbedding": Adapter(by_patch, halves, tokens_first, axes(3), wide=True),
    "Inkling2VisionRotaryEmbedding": Adapter(by_patch, repeats, tokens_first, axes(2)),
    **dict.fromkeys(
        ["Sam3ViTRotaryEmbedding", "Sam2VideoVisionRotaryEmbedding", "Sam3TrackerVideoVisionRotaryEmbedding"],
        Adapter(by_patch, repeats, called("apply_rotary_pos_emb_2d"), axes(2)),
    ),
    "EdgeTamVideoVisionRotaryEmbedding": Adapter(
        by_patch, repeats, called("apply_rotary_pos_emb_2d_self_attn"), axes(2),
    ),
    "EfficientLoFTRRotaryEmbedding": Adapter(
        on_feature_map, repeats, all_heads_as_one, axes(2), reach=lambda source: range(1, 129),
        note="coordinates (row, column) count from 1; the whole hidden state is rotated as one head",
    ),
    "Qwen2_5OmniDiTRotaryEmbedding": Adapter(plain, halves, first_head_only, note="only head 0 is rotated"),
    "ClvpRotaryPositionalEmbedding": Adapter(
        angles_by_length, picked, sliced_with_values, wide=True, reach=lambda source: range(2**14),
        note="values are rotated too",
    ),
    **dict.fromkeys(
        ["SeamlessM4TConformerRotaryPositionalEmbedding", "Wav2Vec2BertRotaryPositionalEmbedding",
         "Wav2Vec2ConformerRotaryPositionalEmbedding"],
        CONFORMER,
    ),
}  # fmt: skip

WITHOUT_CLASS = {  # config class: the file has functions, and no rotary class
    "GPTJConfig": SINUSOIDAL,
    "CodeGenConfig": SINUSOIDAL,
    "RoFormerConfig": Adapter(sinusoidal_embedding, sine_first, of_attention_class, reach=up_to_maximum),
}


def adapter_of(module: torch.nn.Module, label: str | None) -> Adapter:
    """The kind of a rotary class: named above, or told by what the class has."""
    named = BY_CLASS.get(type(module).__name__)
    if named:
        return named
    if hasattr(module, "compute_axial_rope_parameters"):
        return PATCHES
    if hasattr(module, "mrope_section"):
        return SECTIONS
    return PLAIN if label is None else LAYERED
