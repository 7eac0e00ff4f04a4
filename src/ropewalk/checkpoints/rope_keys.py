"""The keys of `rope_parameters` / `rope_scaling`, to scalings and back."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from ropewalk._checks import number, whole
from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.errors import ConfigError
from ropewalk.checkpoints.facts import LARGEST, impossible_if
from ropewalk.checkpoints.rules import Rule
from ropewalk.scaling import NTK, DynamicNTK, Linear, Llama3, LongRoPE, MrRoPE, Proportional, Scaling, Tempered, YaRN

# Hugging Face's key for each of our parameters, where the two names differ.
HF_NAMES = {"original_length": "original_max_position_embeddings", "fraction": "partial_rotary_factor"}
MSCALES = ("short_mscale", "long_mscale")  # vLLM's names for the attention factor of `longrope`
# Read elsewhere, or by models in ways that leave the frequencies alone.
COMMON = frozenset(
    {"rope_type", "type", "rope_theta", "partial_rotary_factor", "mrope_section", "mrope_interleaved", "interleaved"}
    | {"xdrope_section", "llama_4_scaling_beta", "max_position_embeddings", "finetuned"}
)
# rope_type -> required keys, optional keys. A key outside them is an error, never dropped.
KEYS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "default": (frozenset(), frozenset()),
    "linear": (frozenset({"factor"}), frozenset()),
    "dynamic": (frozenset({"factor"}), frozenset()),  # transformers takes the maximum for the original length
    "yarn": (
        frozenset({"factor", "original_length"}),
        frozenset({"beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim", "truncate"}),
    ),
    "longrope": (
        frozenset({"short_factor", "long_factor", "original_length"}),
        frozenset({"factor", "attention_factor", *MSCALES}),
    ),
    "llama3": (frozenset({"factor", "original_length", "low_freq_factor", "high_freq_factor"}), frozenset()),
    "proportional": (frozenset({"partial_rotary_factor"}), frozenset({"factor"})),
}
KNOWN = f"known are {', '.join(sorted(KEYS))}"
ALIASES = {"su": "longrope", "mrope": "default", "axial": "default", "xdrope": "dynamic"}


def rope_type(keys: Mapping[str, Any]) -> str:
    """The type that `keys` names, under either spelling of the key."""
    new, old = keys.get("rope_type"), keys.get("type")
    for value in (new, old):
        if value is not None and not isinstance(value, str):
            raise ConfigError("rope-type-unknown", f"rope_type={value!r} is not a name", KNOWN)
    if new is not None and old is not None and ALIASES.get(new, new) != ALIASES.get(old, old):
        raise ConfigError(
            "rope-type-contradicted", f"rope_type={new!r} and type={old!r} contradict each other", "keep one of them"
        )
    named = new if new is not None else old
    named = ALIASES.get(named, named) if named is not None else "default"
    if named not in KEYS:
        raise ConfigError("rope-type-unknown", f"rope_type={named!r} is unknown", KNOWN)
    return named


def from_keys(
    keys: Mapping[str, Any], *, max_length: int | None, original_length: int | None, rule: Rule
) -> Scaling | None:
    """The scaling that `keys` state, as transformers computes it; None for plain rotary.

    Args:
        keys: the content of `rope_parameters` or `rope_scaling`.
        max_length: the config's max_position_embeddings.
        original_length: the config's top-level original_max_position_embeddings, which wins over the nested one.
        rule: of the model type: whether `dynamic` with the key alpha is a static NTK (HunYuan), and the mscales of
            `longrope` are its attention factor (PhiMoE).

    Raises:
        ConfigError: a missing, unknown, null or impossible key, named.
    """
    kind = rope_type(keys)
    if rule.alpha and kind == "dynamic" and keys.get("alpha") is not None:
        return impossible_if(lambda: NTK(keys["alpha"]))
    given = _checked(kind, keys, original_length)
    for name in ("mscale", "mscale_all_dim"):
        if name in given:
            impossible_if(lambda n=name: number(kind, n, given[n], least=0))
    build: dict[str, Callable[..., Scaling | None]] = {
        "default": lambda: None,
        "linear": Linear,
        "dynamic": lambda factor: DynamicNTK(factor, _maximum(max_length)),
        "yarn": _yarn,
        "llama3": Llama3,
        "longrope": lambda **given: _long_rope(max_length, rule.longrope == "short", **given),
        "proportional": lambda partial_rotary_factor, **k: Proportional(partial_rotary_factor, **k),
    }
    return impossible_if(lambda: build[kind](**given))


def _maximum(max_length: int | None) -> int:
    if max_length is None:
        raise ConfigError("key-missing", "config: the key 'max_position_embeddings' is missing", "this type needs it")
    return max_length


def _yarn(**given: Any) -> YaRN:
    """transformers reads a beta or an mscale of 0 as absent, and one mscale alone as none."""
    for name in ("beta_fast", "beta_slow"):
        if given.get(name) == 0:
            del given[name]
    if not (given.get("mscale") and given.get("mscale_all_dim")) or "attention_factor" in given:
        given.pop("mscale", None), given.pop("mscale_all_dim", None)
    return YaRN(**given)


def _long_rope(max_length: int | None, by_mscale: bool, original_length: int, **given: Any) -> LongRoPE:
    mscales = {given.pop(name) for name in MSCALES if name in given}
    if by_mscale and not mscales:
        raise ConfigError(
            "key-missing", f"longrope: the key {MSCALES[0]!r} is missing", "transformers stops without it"
        )
    factors = mscales | ({given["attention_factor"]} if "attention_factor" in given and not by_mscale else set())
    if len(factors) > 1 and (by_mscale or "attention_factor" in given):
        raise ConfigError(
            "attention-factor-contradicted", f"longrope: {' and '.join(MSCALES)} and attention_factor differ",
            "readers take one or the other: give them one value",
        )  # fmt: skip
    if by_mscale:
        given["attention_factor"] = mscales.pop()
    factor = max(1.0, _maximum(max_length) / original_length)
    return LongRoPE(**{"factor": factor, "original_length": original_length, **given})


def _checked(kind: str, keys: Mapping[str, Any], original_length: int | None) -> dict[str, Any]:
    """Our names and values for the keys that `kind` takes; nulls count as absent."""
    required, optional = KEYS[kind]
    if "truncate" in keys and not isinstance(keys["truncate"], bool):
        raise ConfigError("value-impossible", f"{kind}: truncate={keys['truncate']!r} is not true or false", "")
    ours = {theirs: own for own, theirs in HF_NAMES.items() if own != "fraction"}
    given = {ours.get(key, key): value for key, value in keys.items() if value is not None}
    if original_length is not None and "original_length" in required | optional:
        given["original_length"] = original_length
    if "original_length" in given:
        stated, key = given["original_length"], HF_NAMES["original_length"]
        given["original_length"] = impossible_if(lambda: whole(kind, key, stated, least=1))
        if given["original_length"] > LARGEST:
            raise ConfigError("value-impossible", f"{kind}: {key}={stated} is beyond any length", "")
    _refuse_unknown(kind, set(given))
    missing = required - set(given)
    if missing:
        raise ConfigError(
            "original-length-missing" if missing == {"original_length"} else "key-missing",
            f"{kind}: the key {', '.join(repr(HF_NAMES.get(k, k)) for k in sorted(missing))} is missing",
            "write it: readers that guess it take the extended length for the original one",
        )
    return {key: value for key, value in given.items() if key in required | optional}


def _refuse_unknown(kind: str, given: set[str]) -> None:
    required, optional = KEYS[kind]
    unknown = given - required - optional - COMMON
    if kind in ("default", "linear", "dynamic"):
        unknown -= {"original_length"}  # stated by some writers; transformers' frequencies do not depend on it
    if unknown:
        allowed = sorted(HF_NAMES.get(k, k) for k in required | optional | {"rope_theta"})
        raise ConfigError(
            "key-unknown",
            f"{kind}: unknown key {', '.join(map(repr, sorted(unknown)))}",
            f"allowed with rope_type {kind!r} are {', '.join(allowed)}",
        )


def to_keys(
    scaling: Scaling | None, inv_freq: Tensor, base: float, native_length: int, max_length: int
) -> dict[str, Any]:
    """The keys that make transformers compute `scaling`; anything it has no name for becomes `longrope` factors.

    Raises:
        RopewalkError: a length-dependent NTK or PI, which no reader reproduces once the maximum is raised.
    """
    match scaling:
        case None:
            return {"rope_type": "default"}
        case Linear(factor):
            return {"rope_type": "linear", "factor": factor}
        case Llama3(factor, original, low, high):
            return _named("llama3", factor, original, low_freq_factor=low, high_freq_factor=high)
        case YaRN(factor, original, fast, slow, "code"):
            extra = {"beta_fast": fast, "beta_slow": slow, "attention_factor": scaling.apply(inv_freq, base=base)[1]}
            return _named("yarn", factor, original, **extra, **({} if scaling.truncate else {"truncate": False}))
        case LongRoPE(short, long, original):
            factor = scaling.factor if scaling.factor is not None else max_length / original
            return _longrope(factor, original, list(short), list(long), scaling.apply(inv_freq, base=base)[1])
        case YaRN(factor, original) | MrRoPE(factor, original):
            scaled = scaling.apply(inv_freq, base=base)
            divisors = (inv_freq / scaled.inv_freq).tolist()
            return _longrope(factor, original, divisors, divisors, scaled.attention_factor)
        case Tempered(frequencies) if not (frequencies.depends_on_length or isinstance(frequencies, Proportional)):
            scaled = scaling.apply(inv_freq, base=base)
            divisors = (inv_freq / scaled.inv_freq).tolist()
            return _longrope(max_length / native_length, native_length, divisors, divisors, scaled.attention_factor)
        case _:
            raise RopewalkError(
                f"{type(scaling).__name__} cannot be written into a checkpoint: readers compute it differently or not "
                "at all; write linear, ntk, ntk-critical, yarn, llama3 or mrrope"
            )


def _named(kind: str, factor: float, original_length: int, **more: Any) -> dict[str, Any]:
    return {"rope_type": kind, "factor": factor, "original_max_position_embeddings": original_length, **more}


def _longrope(
    factor: float, original_length: int, short: list[float], long: list[float], attention_factor: float
) -> dict[str, Any]:
    """transformers reads `attention_factor`, vLLM only the two mscales."""
    mscales = dict.fromkeys(MSCALES, attention_factor)
    divisors = {"short_factor": short, "long_factor": long}
    return _named("longrope", factor, original_length, **divisors, attention_factor=attention_factor, **mscales)
