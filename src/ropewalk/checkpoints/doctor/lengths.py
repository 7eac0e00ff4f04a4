"""Lengths: the original one, the claimed one, and the one that is asked for."""

from ropewalk.checkpoints.doctor.common import ORIGINAL, Found, rope_dict_sets
from ropewalk.checkpoints.errors import Finding
from ropewalk.checkpoints.facts import Facts
from ropewalk.checkpoints.rope_keys import MSCALES
from ropewalk.checkpoints.spec import ModelSpec
from ropewalk.scaling import DynamicNTK, Linear, LongRoPE, YaRN


def original_overwritten(facts: Facts, spec: ModelSpec) -> Found:
    """The original length stands twice, and readers differ on which counts."""
    top = facts.config.get(ORIGINAL)
    for keys in rope_dict_sets(facts):
        nested = keys.get(ORIGINAL)
        if top is not None and nested is not None and top != nested:
            taken = nested if facts.rule.is_per_layer else top
            yield Finding(
                "original-length-overwritten", "error",
                f"{ORIGINAL} is {top} at the top level and {nested} in the rope keys; transformers takes {taken}",
                "state one length in both places",
            )  # fmt: skip


def factor_disagrees(facts: Facts, spec: ModelSpec) -> Found:
    """factor x original length is not the length that the config claims."""
    scaling, claimed = spec.scaling, spec.max_length
    if not isinstance(scaling, YaRN) and not (isinstance(scaling, LongRoPE) and "factor" in str(rope_dict_sets(facts))):
        return
    factor = scaling.factor
    if factor is None or claimed is None or facts.model_type.startswith("phi"):
        return
    reach = factor * scaling.original_length
    if abs(reach - claimed) > 0.01 * max(reach, claimed):
        yield Finding(
            "factor-disagrees", "warning",
            f"factor {factor:g} on {scaling.original_length:,} tokens is {reach:,.0f}, but max_position_embeddings "
            f"says {claimed:,}: engines stop at the one or multiply to the other",
            "set max_position_embeddings to factor x original length",
        )  # fmt: skip


def length_guessed(facts: Facts, spec: ModelSpec) -> Found:
    """PI states its factor alone: whether the maximum is the native or the extended length is a convention."""
    if isinstance(spec.scaling, Linear) and facts.config.get(ORIGINAL) is None:
        yield Finding(
            "native-length-guessed", "note",
            f"rope_type linear states no original length: {spec.native_length} is max_position_embeddings / factor, "
            "and some writers leave the native length in that key",
            f"state {ORIGINAL}",
        )  # fmt: skip


def dynamic(facts: Facts, spec: ModelSpec) -> Found:
    """Dynamic NTK acts past max_position_embeddings alone, and changes keys that are cached already."""
    if not isinstance(spec.scaling, DynamicNTK):
        return
    stated = [keys.get(ORIGINAL) for keys in rope_dict_sets(facts)] + [facts.config.get(ORIGINAL)]
    original = next((length for length in stated if length is not None), None)
    if original is not None and spec.max_length is not None and original < spec.max_length:
        yield Finding(
            "dynamic-no-op", "error",
            f"rope_type dynamic scales past max_position_embeddings = {spec.max_length:,}, which was raised from "
            f"{original:,}: up to there it does nothing",
            f"set max_position_embeddings back to {original}, or use yarn",
        )  # fmt: skip
    yield Finding(
        "dynamic-with-cache", "warning",
        "rope_type dynamic changes the frequencies as the text grows: with a cache, and in a batch of unequal lengths, "
        "transformers' logits differ from those of one pass",
        "use a static method (yarn, or a larger rope_theta)",
    )  # fmt: skip


def longrope_switch(facts: Facts, spec: ModelSpec) -> Found:
    """LongRoPE's two lists take turns at the original length."""
    scaling, rule = spec.scaling, facts.rule
    if not isinstance(scaling, LongRoPE) or tuple(scaling.short_factor) == tuple(scaling.long_factor):
        return
    if rule.longrope == "short":
        yield Finding(
            "long-factor-unused", "error",
            f"transformers' {facts.model_type} never uses long_factor: past {scaling.original_length:,} tokens it "
            "keeps the short one",
            "check the engine that serves it, or read no further than the original length",
        )  # fmt: skip
    elif rule.longrope is None:
        yield Finding(
            "longrope-with-cache", "warning",
            f"a {facts.model_type!r} model that generates across {scaling.original_length:,} tokens has keys of the "
            "short factors in its cache under queries of the long ones: transformers clears it in Phi-3 alone",
            "give short_factor and long_factor the same numbers, or generate from one pass",
        )  # fmt: skip


def mscale_unread(facts: Facts, spec: ModelSpec) -> Found:
    """vLLM reads mscales that transformers does not."""
    for keys in rope_dict_sets(facts):
        stated = [name for name in MSCALES if keys.get(name) is not None]
        if stated and keys.get("attention_factor") is None and facts.rule.longrope != "short":
            yield Finding(
                "mscale-unread", "warning",
                f"{' and '.join(stated)} stand without attention_factor: transformers ignores them in a "
                f"{facts.model_type!r} model, and vLLM does not",
                "state attention_factor with the same value",
            )  # fmt: skip


def window_short(facts: Facts, spec: ModelSpec) -> Found:
    """Every layer has a window, and it is shorter than the claim."""
    windows = [layer.window for layer in spec.layers if layer.kind not in ("linear_attention", "conv")]
    if spec.max_length and windows and all(window is not None and window < spec.max_length for window in windows):
        widest = max(window for window in windows if window is not None)
        yield Finding(
            "window-short", "note",
            f"no layer sees farther back than {widest:,} tokens; the {spec.max_length:,} claimed are reached only from "
            "layer to layer",
            "measure retrieval before relying on it",
        )  # fmt: skip


def table_short(facts: Facts, spec: ModelSpec, to: int) -> Found:
    """A table with fewer rows than tokens are asked for."""
    table = facts.rule.table
    is_limited = spec.main.encoding in ("learned", "sinusoidal", "alibi") and not table.get("extends")
    if is_limited and spec.native_length and to > spec.native_length:
        yield Finding(
            "table-short", "error",
            f"the table has {spec.native_length:,} positions and {to:,} are asked for: the model stops there",
            "train a longer table, or choose a model that rotates",
        )  # fmt: skip


def claim_short(facts: Facts, spec: ModelSpec, to: int) -> Found:
    """More tokens than the config claims."""
    if spec.main.rotates and spec.max_length and to > spec.max_length:
        yield Finding(
            "beyond-the-claim", "note",
            f"{to:,} tokens are asked for and max_position_embeddings says {spec.max_length:,}",
            "extend the checkpoint: ropewalk extend",
        )  # fmt: skip
