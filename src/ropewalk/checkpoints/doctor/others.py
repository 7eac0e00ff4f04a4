"""ALiBi in transformers, frequencies that stand among the weights, and weights laid out for the other pairing."""

from collections.abc import Mapping

from ropewalk.checkpoints.doctor.common import Found
from ropewalk.checkpoints.errors import Finding
from ropewalk.checkpoints.facts import Facts
from ropewalk.checkpoints.spec import INTERLEAVE, ModelSpec

HALF_PRECISION = ("bfloat16", "float16", "bf16", "fp16")


def alibi(facts: Facts, spec: ModelSpec) -> Found:
    """ALiBi in low precision, and switches that transformers' MPT does not read."""
    if spec.main.encoding != "alibi":
        return
    kept = str(facts.config.get("dtype") or facts.config.get("torch_dtype") or "").removeprefix("torch.")
    if facts.model_type == "falcon":
        yield Finding(
            "alibi-in-bf16", "note",
            "transformers rounds Falcon's ALiBi slopes to bfloat16 whatever the weights are, and divides the bias by "
            "sqrt(head_dim) with the scores",
            "compare long inputs with a float32 bias",
        )  # fmt: skip
    elif facts.model_type == "bloom" and kept in HALF_PRECISION:
        yield Finding(
            "alibi-in-bf16", "warning",
            f"{kept}: ALiBi's bias grows with the position, and neighbours far out get the same value in 16 bits",
            "make the bias in float32",
        )  # fmt: skip
    attention = facts.config.get("attn_config") or {}
    if facts.model_type == "mpt" and isinstance(attention, Mapping):
        for key, right in (("alibi", True), ("alibi_bias_max", 8)):
            if attention.get(key, right) != right:
                yield Finding(
                    "alibi-key-ignored", "note" if key == "alibi_bias_max" else "error",
                    f"attn_config.{key} = {attention[key]} is ignored by transformers, which computes with {right}",
                    "use the model's own code",
                )  # fmt: skip


def from_weights(facts: Facts, spec: ModelSpec) -> Found:
    """Frequencies that are saved with the weights."""
    if facts.model_type in ("esm", "wav2vec2-conformer", "seamless_m4t", "mistral_large4_text") and spec.main.rotates:
        yield Finding(
            "frequencies-in-weights", "note",
            f"a {facts.model_type!r} checkpoint holds frequencies, or what multiplies them, among its weights",
            "they win over the config",
        )  # fmt: skip


def pairing_unread(facts: Facts, spec: ModelSpec) -> Found:
    """Queries and keys laid out for a pairing that transformers' code of this type does not turn."""
    if spec.turned:
        yield Finding(
            "pairing-unread", "error",
            f"{INTERLEAVE} = {str(facts.config[INTERLEAVE]).lower()}: queries and keys are laid out for {spec.turned} "
            f"pairs. transformers' {facts.model_type!r} turns {spec.rule.layout} ones and does not read the key: it, "
            "and engines like it, compute gibberish without a word",
            f"load it with ropewalk or with code of that pairing, or: ropewalk convert --layout {spec.rule.layout}",
        )  # fmt: skip
