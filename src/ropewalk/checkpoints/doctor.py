"""What in a config its user should know: where transformers, or another reader, computes something else than it says.

Each check is a function of the facts and of the spec that was read from them, and yields findings; CHECKS lists them.
A config from which no encoding follows never comes here: it is a `ConfigError`, with a finding of its own.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ropewalk.checkpoints.errors import Finding
from ropewalk.checkpoints.facts import Facts
from ropewalk.checkpoints.rope_dicts import ALL, BASE, SHARE, is_nested, reached, spelled, top_level
from ropewalk.checkpoints.rope_keys import ALIASES, HF_NAMES
from ropewalk.checkpoints.spec import ModelSpec
from ropewalk.scaling import DynamicNTK, Linear, LongRoPE, YaRN

Found = Iterator[Finding]
ORIGINAL = HF_NAMES["original_length"]
HALF_PRECISION = ("bfloat16", "float16", "bf16", "fp16")
# Keys that a writer may have meant; the names of model_types.json count as well.
MEANT = ("rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor", "max_position_embeddings", ORIGINAL,
         "sliding_window", "layer_types", "head_dim")  # fmt: skip


def examine(facts: Facts, spec: ModelSpec, to: int | None = None) -> tuple[Finding, ...]:
    """Every finding of `facts`, the worst first.

    Args:
        to: a length that is asked for, in tokens; findings about it are left out without one.
    """
    found = [finding for check in CHECKS for finding in check(facts, spec)]
    found += [] if to is None else [finding for check in CHECKS_AT for finding in check(facts, spec, to)]
    order = ("error", "warning", "note")
    return tuple(sorted(found, key=lambda finding: order.index(finding.severity)))


def rope_dict_sets(facts: Facts) -> list[dict[str, Any]]:
    """Each set of rope keys that the config states."""
    stated = spelled(facts)
    if not is_nested(stated):
        return [stated] if stated else []
    return [dict(keys) for keys in stated.values() if isinstance(keys, Mapping)]


def kind_of(keys: Mapping[str, Any]) -> str:
    """The rope type as it is written."""
    return str(keys.get("rope_type") or keys.get("type") or "default")


def assumed(facts: Facts, spec: ModelSpec) -> Found:
    """Keys that the config leaves to transformers."""
    if facts.assumed:
        listed = ", ".join(f"{key} = {value:g}" if isinstance(value, float) else f"{key} = {value}"
                           for key, value in sorted(facts.assumed.items()))  # fmt: skip
        yield Finding("assumed", "note", f"the config is silent about {listed}", "transformers takes these; state them")


def part_read(facts: Facts, spec: ModelSpec) -> Found:
    """A composite model has other parts."""
    if spec.part:
        yield Finding("part-read", "note", f"this is {spec.part}", "for another: from_config(config, part=...)")


def misspelt(facts: Facts, spec: ModelSpec) -> Found:
    """A key that nobody reads and that looks like one that is read."""
    known = {*MEANT, *facts.rule.names.values(), *facts.rule.keys, *facts.rule.defaults}
    for key in facts.config:
        close = [] if key in known else difflib.get_close_matches(key, known, 1, 0.88)
        if close and close[0] not in facts.config and abs(len(close[0]) - len(key)) < 2:  # v_head_dim is no head_dim
            yield Finding("key-misspelt", "error", f"the key {key!r} is read by nobody", f"did you mean {close[0]!r}?")


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


def temperature_cancelled(facts: Facts, spec: ModelSpec) -> Found:
    """DeepSeek's pair of mscales: equal ones cancel, and only its attention makes up for that."""
    for keys in rope_dict_sets(facts):
        if kind_of(keys) != "yarn" or keys.get("attention_factor") is not None:
            continue
        one, other = keys.get("mscale"), keys.get("mscale_all_dim")
        if one and one == other and not facts.rule.softmax and facts.model_type != "ministral3":
            yield Finding(
                "temperature-cancelled", "error",
                f"mscale = mscale_all_dim = {one} leaves the tables without YaRN's temperature, and a "
                f"{facts.model_type!r} model has no softmax factor to make up for it",
                "drop both keys",
            )  # fmt: skip
        elif one == 0 or other == 0 or (one is None) != (other is None):
            yield Finding(
                "mscale-ignored", "error",
                f"mscale = {one} and mscale_all_dim = {other}: transformers reads 0 or one alone as neither, and takes "
                "0.1 ln(factor) + 1; DeepSeek's own code does not",
                "state attention_factor",
            )  # fmt: skip


def beta_zero(facts: Facts, spec: ModelSpec) -> Found:
    """transformers takes a beta of 0 for its default."""
    for keys in rope_dict_sets(facts):
        for name, default in (("beta_fast", 32), ("beta_slow", 1)):
            if kind_of(keys) == "yarn" and keys.get(name) == 0:
                yield Finding(
                    "beta-ignored",
                    "error",
                    f"{name} = 0: transformers computes with {default}",
                    f"state {name} above 0",
                )


def truncate_ignored(facts: Facts, spec: ModelSpec) -> Found:
    """transformers looks for truncate beside the layer types, and not in their keys."""
    for keys in rope_dict_sets(facts):
        if facts.rule.is_per_layer and keys.get("truncate") is False:
            yield Finding(
                "truncate-ignored", "error",
                "truncate = false inside a layer type's keys is ignored by transformers, which rounds the band edges",
                "none is known: the key has no place that is read in such a model",
            )  # fmt: skip


def scaling_dropped(facts: Facts, spec: ModelSpec) -> Found:
    """One set of keys in a model that reads one for each layer type."""
    stated = spelled(facts)
    if not facts.rule.is_per_layer or not stated or is_nested(stated):
        return
    dropped = sorted(set(facts.rule.rope) - reached(facts))
    if dropped and kind_of(stated) != "default":
        severity = "error" if len(dropped) == len(facts.rule.rope) else "note"
        yield Finding(
            "scaling-dropped", severity,
            f"one set of rope keys ({kind_of(stated)}) in a model with one for each layer type: transformers drops it "
            f"for {', '.join(dropped)}",
            "write rope_parameters with a set of keys for each layer type",
        )  # fmt: skip


def dialects(facts: Facts, spec: ModelSpec) -> Found:
    """transformers 4 does not know rope_parameters, and falls to its defaults without a word."""
    config = facts.config
    if not config.get("rope_parameters") or config.get("rope_scaling"):
        return
    lost = [name for keys in rope_dict_sets(facts) for name in _lost(facts, keys)]
    if lost:
        old = str(config.get("transformers_version", "")).startswith("4.")
        yield Finding(
            "unread-by-transformers-4", "error" if old else "note",
            f"{' and '.join(dict.fromkeys(lost))} stand in rope_parameters alone: transformers 4"
            + (", which this config names," if old else "") + " and readers like it ignore them without a word",
            "state rope_theta and rope_scaling at the top level too",
        )  # fmt: skip


def _lost(facts: Facts, keys: Mapping[str, Any]) -> list[str]:
    lost = ["the scaling"] if kind_of(keys) not in ("default", "axial") else []
    has_base = keys.get(BASE) not in (None, 10_000.0) and facts.config.get(BASE) is None
    return [*lost, BASE] if has_base else lost


def base_ignored(facts: Facts, spec: ModelSpec) -> Found:
    """rope_theta in a model type that does not read it."""
    stated = facts.config.get(BASE)
    read = any(BASE in top_level(facts, label, BASE) for label in facts.rule.rope if facts.rule.is_per_layer)
    read |= not facts.rule.is_per_layer and BASE in top_level(facts, ALL, BASE)
    used = {layer.base for layer in spec.layers if layer.rotates}
    if stated is not None and not read and used and stated not in used:
        names = [name for name, where in facts.rule.keys.items() if any(BASE in path for path in where)]
        yield Finding(
            "base-ignored", "error",
            f"rope_theta = {stated:g} is not read by a {facts.model_type!r} model, which rotates with base "
            f"{', '.join(f'{base:g}' for base in sorted(b for b in used if b is not None))}",
            f"state it as {' or '.join(names)}" if names else "put it into rope_parameters",
        )  # fmt: skip


def share_ignored(facts: Facts, spec: ModelSpec) -> Found:
    """partial_rotary_factor in a model type whose plain rope type rotates the whole head."""
    shares = [keys.get(SHARE) for keys in rope_dict_sets(facts)] + [facts.config.get(SHARE)]
    stated = next((share for share in shares if share is not None), None)
    main = spec.main
    if stated in (None, 1) or not main.rotates or main.partial == "proportional" or main.head_dim is None:
        return
    if main.rotary_dim != int(main.head_dim * float(stated)):
        yield Finding(
            "share-ignored", "error",
            f"partial_rotary_factor = {stated} is ignored: this {facts.model_type!r} model rotates {main.rotary_dim} "
            f"of {main.head_dim} features",
            "drop the key, or check what the model was trained with",
        )  # fmt: skip
    elif not facts.rule.share and main.scaling is not None:
        yield Finding(
            "share-by-scaling", "warning",
            f"partial_rotary_factor = {stated} counts only because of the scaling: without one a {facts.model_type!r} "
            "model rotates whole heads",
            "check what the model was trained with",
        )  # fmt: skip


def type_alias(facts: Facts, spec: ModelSpec) -> Found:
    """An old or foreign name of a rope type, which transformers 5 does not look up."""
    for keys in rope_dict_sets(facts):
        written = kind_of(keys)
        at_home = facts.rule.axes is not None or facts.rule.alpha  # these types translate mrope and xdrope
        if written in ALIASES and not at_home:
            yield Finding(
                "rope-type-alias", "error",
                f"rope_type {written!r} is read here as {ALIASES[written]!r}; transformers 5 stops with a KeyError",
                f"write {ALIASES[written]!r}",
            )  # fmt: skip


def null_head_dim(facts: Facts, spec: ModelSpec) -> Found:
    """Three rope types of transformers do arithmetic with head_dim where it is null."""
    if not facts.rule.null_head_dim or facts.stated("head_dim") is not None:
        return
    for keys in rope_dict_sets(facts):
        if kind_of(keys) in ("dynamic", "yarn", "longrope"):
            yield Finding(
                "head-dim-null", "error",
                f"head_dim is not stated, and transformers' {kind_of(keys)} stops with a TypeError without it in a "
                f"{facts.model_type!r} model",
                f"state head_dim = {spec.main.head_dim}",
            )  # fmt: skip


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
    elif kept in HALF_PRECISION:
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


def from_weights(facts: Facts, spec: ModelSpec) -> Found:
    """Frequencies that are saved with the weights."""
    if facts.model_type in ("esm", "wav2vec2-conformer", "seamless_m4t", "mistral_large4_text") and spec.main.rotates:
        yield Finding(
            "frequencies-in-weights", "note",
            f"a {facts.model_type!r} checkpoint holds frequencies, or what multiplies them, among its weights",
            "they win over the config",
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
            "beyond-the-claim", "warning",
            f"{to:,} tokens are asked for and max_position_embeddings says {spec.max_length:,}",
            "extend the checkpoint: ropewalk extend",
        )  # fmt: skip


Check = Callable[[Facts, ModelSpec], Iterable[Finding]]
CHECKS: tuple[Check, ...] = (
    misspelt, original_overwritten, factor_disagrees, length_guessed, dynamic, longrope_switch, temperature_cancelled,
    beta_zero, truncate_ignored, scaling_dropped, dialects, base_ignored, share_ignored, type_alias, null_head_dim,
    alibi, window_short, from_weights, part_read, assumed,
)  # fmt: skip
CHECKS_AT: tuple[Callable[[Facts, ModelSpec, int], Iterable[Finding]], ...] = (table_short, claim_short)
