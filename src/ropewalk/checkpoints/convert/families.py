"""Where queries and keys stand in the weights of each family whose pairing can be converted."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ropewalk._errors import RopewalkError

# What a tensor holds, in blocks of one head: all of them of queries or of keys, queries then keys then values (Phi-3),
# or query, key and value of each head in turn (GPT-NeoX). In latent attention (MLA) the heads of queries end in what
# rotates, and one rotary key for all heads stands behind what the other keys and the values are made of.
QUERIES, KEYS, FUSED, BY_HEAD = "queries", "keys", "queries, keys, values", "query, key, value of each head"
LATENT_QUERIES, LATENT_KEY = "queries that end in their rotary part", "latent, then the rotary key"
SPLIT = {"q_proj": QUERIES, "k_proj": KEYS}
NORMED = {**SPLIT, "q_norm": QUERIES, "k_norm": KEYS}
LAYER_NORMED = {**SPLIT, "q_layernorm": QUERIES, "k_layernorm": KEYS}
# What else stands in an attention module, and is not turned. Any other name stops the conversion.
UNTURNED = (
    "q_a_proj",
    "q_a_layernorm",
    "kv_a_layernorm",
    "kv_b_proj",
    "v_proj",
    "o_proj",
    "dense",
    "out_proj",
    "rotary_emb.inv_freq",
    "bias",
    "masked_bias",
    "sinks",
)


@dataclass(frozen=True)
class Family:
    """How one model type stores what is rotated.

    Attributes:
        parts: a name within the attention module, less its .weight or .bias -> what it holds. Names with "norm" are of
            norms between projection and rotation, of a head or of all of them.
        norm: "rms", or "layer", which subtracts the mean too.
        offset: what the norm adds to its weight.
    """

    parts: Mapping[str, str] = field(default_factory=lambda: SPLIT)
    norm: str = "rms"
    offset: float = 0.0


PLAIN = Family()
LATENT = Family({"q_proj": LATENT_QUERIES, "q_b_proj": LATENT_QUERIES, "kv_a_proj_with_mqa": LATENT_KEY})
FAMILIES: dict[str, Family] = {
    **dict.fromkeys(("llama", "mistral", "mixtral", "ministral", "qwen2", "qwen2_moe", "smollm3", "granite"), PLAIN),
    **dict.fromkeys(("gemma", "gemma2", "starcoder2", "olmo", "helium", "ernie4_5", "glm", "glm4", "cohere2"), PLAIN),
    **dict.fromkeys(("qwen3", "qwen3_moe", "olmo2", "olmo3"), Family(NORMED)),
    "gemma3_text": Family(NORMED, offset=1.0),
    "cohere": Family(NORMED, norm="layer"),
    "phi": Family(LAYER_NORMED, norm="layer"),
    "stablelm": Family(LAYER_NORMED, norm="layer"),
    "phi3": Family({"qkv_proj": FUSED}),
    "gpt_neox": Family({"query_key_value": BY_HEAD}),
    **dict.fromkeys(("deepseek_v3", "youtu", "glm4_moe_lite"), LATENT),
}


def family_of(model_type: str) -> Family:
    """The family of `model_type`.

    Raises:
        RopewalkError: one whose weights are not in the table.
    """
    if model_type not in FAMILIES:
        raise RopewalkError(
            f"convert: where a {model_type!r} model keeps its queries and keys is not in the table; "
            f"converted are {', '.join(sorted(FAMILIES))}"
        )
    return FAMILIES[model_type]


def heads(holds: str, blocks: int) -> tuple[list[int], list[int]]:
    """Which blocks, of all that a tensor has, are queries' heads and which keys', each in order.

    Args:
        holds: one of the above; of a FUSED tensor the queries' heads have to be known: see `fused`.
        blocks: how many the tensor has.
    """
    every = list(range(blocks))
    if holds == BY_HEAD:
        return every[::3], every[1::3]
    return (every, []) if holds in (QUERIES, LATENT_QUERIES) else ([], every)


def fused(blocks: int, queries: int) -> tuple[list[int], list[int]]:
    """The same where queries come first, then as many keys as values."""
    keys = (blocks - queries) // 2
    return list(range(queries)), list(range(queries, queries + keys))
