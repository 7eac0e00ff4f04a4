"""Layer by layer: its type, its window, and whether it rotates at all."""

from typing import Any

from ropewalk.checkpoints.errors import ConfigError
from ropewalk.checkpoints.facts import Facts

WITHOUT_ATTENTION = ("linear_attention", "conv", "mamba", "mamba2", "recurrent", "moe", "mlp")
# transformers' names of layer types, with those of older configs.
KNOWN_TYPES = {
    *(f"{kind}_attention" for kind in ("full", "sliding", "chunked", "window", "indexed", "reference_sliding")),
    *(f"{kind}_attention" for kind in ("compressed_sparse", "heavily_compressed", "deepseek_sparse", "qwen_sparse")),
    *("attention", "hybrid", "hybrid_sliding", "minimax_m3_sparse", "sparse", "dense", *WITHOUT_ATTENTION),
}
MOST_LAYERS = 10_000  # a config that states more has a slip in it


def layer_count(facts: Facts) -> int:
    """How many layers there are; 1 where a config does not say."""
    count = _stated_count(facts)
    if count > MOST_LAYERS:
        key = facts.key("num_hidden_layers")
        raise ConfigError("value-impossible", f"config: {key}={count} is more than {MOST_LAYERS} layers", "")
    return count


def _stated_count(facts: Facts) -> int:
    for key in facts.rule.layers:
        stated = facts.stated(key)
        if stated:
            return len(stated) if isinstance(stated, str | list | tuple) else facts.needed(key)
    return facts.count("num_hidden_layers") or 1


def layer_types(facts: Facts) -> list[str]:
    """The type of each layer, from the config or by the model type's rule; one "" where layers have no types."""
    layers, windows = layer_count(facts), facts.rule.windows
    stated = facts.stated("layer_types")
    if stated is not None:
        types = _checked(facts, stated, layers)
        _note_pattern(facts, types)
        return types
    if windows in ("switched", "alternate", "unrotated"):
        slides = [windows_are_on(facts) and _slides(facts, windows, layer) for layer in range(layers)]
        return ["sliding_attention" if one else "full_attention" for one in slides]
    if facts.rule.cycle:
        return _laid_out(facts, layers)
    if windows == "layers" or facts.rule.is_per_layer:
        raise ConfigError(
            "key-missing", f"config: the key 'layer_types' is missing in a {facts.model_type!r} model", "list them"
        )
    return [""] * layers


def _note_pattern(facts: Facts, types: list[str]) -> None:
    """A pattern beside the list of types, which wins."""
    key = facts.rule.cycle.get("key")
    if key and facts.stated(key) is not None and not rotation_decides(facts) and _laid_out(facts, len(types)) != types:
        facts.overruled[facts.key(key)] = facts.key("layer_types")


def _slides(facts: Facts, windows: str, layer: int) -> bool:
    """Whether a layer gets the window of a model that has it switched on."""
    if windows == "unrotated":  # SmolLM3
        return not rotates(facts, "", layer)
    first = facts.needed("max_window_layers", least=0)
    return layer % 2 == 0 and layer < first if windows == "alternate" else layer >= first


def _checked(facts: Facts, stated: Any, layers: int) -> list[str]:
    key = facts.key("layer_types")
    if not isinstance(stated, list | tuple) or not all(isinstance(one, str) for one in stated):
        raise ConfigError("value-impossible", f"config: {key}={stated!r} is not a list of names", "")
    if len(stated) != layers:
        raise ConfigError(
            "layer-types-length", f"config: {key} names {len(stated)} layers of {layers}", "name every layer once"
        )
    unknown = sorted(set(stated) - KNOWN_TYPES)
    if unknown:
        raise ConfigError(
            "layer-type-unknown",
            f"config: {key} names {', '.join(map(repr, unknown))}",
            f"known are {', '.join(sorted(KNOWN_TYPES))}",
        )
    return list(stated)


def _laid_out(facts: Facts, layers: int) -> list[str]:
    """The types by the rule of `cycle`: `then` at every so many layers or where a key lists it, else `rest`."""
    cycle = facts.rule.cycle
    if "listed" in cycle:
        listed = facts.stated(cycle["listed"]) or []
        if not isinstance(listed, list | tuple):
            raise ConfigError("value-impossible", f"config: {cycle['listed']}={listed!r} is not a list of layers", "")
        return [cycle["then"] if layer in listed else cycle["rest"] for layer in range(layers)]
    if "every" not in cycle:
        return [cycle["rest"]] * layers
    if rotation_decides(facts):
        return [cycle["rest"] if rotates(facts, "", layer) else cycle["then"] for layer in range(layers)]
    every = facts.count(cycle["key"]) if "key" in cycle else cycle["every"]
    every = every or facts.assume(cycle["key"], cycle["every"])
    at = every - 1 if cycle["at"] == cycle["every"] - 1 else cycle["at"]
    marked = {layer for layer in range(layers) if layer % every == at} - {cycle.get("not_at")}
    if cycle.get("backward"):
        marked = {layers - 1 - layer for layer in marked}
    marked |= set(cycle.get("also", ()))
    types = [cycle["then"] if layer in marked else cycle["rest"] for layer in range(layers)]
    return [*types[:-1], cycle["last"]] if cycle.get("last") else types


def rotation_decides(facts: Facts) -> bool:
    """Whether the layers that do not rotate are the ones of another type (Llama 4)."""
    return facts.rule.cycle.get("key") == "no_rope_layer_interval"


def chunk(facts: Facts, kind: str) -> int | None:
    """The length of the chunks within which a layer attends; None where it has none."""
    return facts.count("attention_chunk_size") if kind == "chunked_attention" else None


def windows_are_on(facts: Facts) -> bool:
    """Whether layers past max_window_layers have a window: by use_sliding_window where the type has it."""
    is_on = facts.switch("use_sliding_window") if "use_sliding_window" in facts.rule.defaults else True
    return bool(is_on) and not _stated_null(facts) and facts.get("sliding_window") is not None


def _stated_null(facts: Facts) -> bool:
    """Whether the config says in so many words that there is no window."""
    own = facts.rule.names.get("sliding_window", "sliding_window")
    return own in facts.config and facts.stated("sliding_window") is None


def window(facts: Facts, kind: str) -> int | None:
    """How many positions back a query of this layer type sees, itself included; None for all."""
    rule = facts.rule
    if rule.windows is None or kind in WITHOUT_ATTENTION or (rule.windows != "all" and "sliding" not in kind):
        return None
    if "use_sliding_window" in rule.defaults and not windows_are_on(facts):
        return None
    if "local_attention" in rule.defaults and facts.stated("sliding_window") is not None:
        both = facts.stated("local_attention") is not None
        if both and facts.count("sliding_window") != (facts.count("local_attention") or 0) // 2:
            facts.overruled["local_attention"] = "sliding_window"
    if "local_attention" in rule.defaults and facts.stated("sliding_window") is None:
        wide = (facts.count("local_attention") or 0) // 2  # it counts both sides
    elif _stated_null(facts):
        return None
    else:
        wide = facts.count("sliding_window", least=0) or 0
    if rule.other_window and facts.stated(rule.other_window[0]) is not None:
        return facts.needed(rule.other_window[0]) + rule.other_window[1]
    if rule.both_ways and facts.stated(rule.both_ways[0]) == rule.both_ways[1]:
        return wide // 2 + rule.both_ways[2]
    return wide + rule.window_extra if wide else None


def rotates(facts: Facts, kind: str, layer: int) -> bool:
    """Whether this layer turns its queries and keys."""
    rule = facts.rule
    if kind in WITHOUT_ATTENTION:
        return False
    match rule.nope:
        case "all":
            return False
        case "not sliding":
            return "sliding" in kind
        case "not sliding if windowed":
            return "sliding" in kind or (facts.stated("sliding_window") is None and "sliding_window" in facts.config)
        case "no_rope_layers":
            return _no_rope_layers(facts, layer)
        case "layer_rope_theta":
            return layer_base(facts, layer) != 0
        case "layer_rope_theta, else every fourth from the last":
            base, layers = layer_base(facts, layer), facts.needed("num_hidden_layers")
            return (layers - 1 - layer) % 4 != 0 if base is None else base != 0
        case "cross_attention_layers":
            return layer not in _crossing(facts)
        case "unless use_mem_rope":
            return bool(facts.get("use_mem_rope"))
        case "unless position_embedding_type is rope":
            return facts.get("position_embedding_type") == "rope"
        case _:
            return True


def _crossing(facts: Facts) -> list[int]:
    """The layers that attend to an image, and rotate nothing (Llama 3.2 Vision)."""
    listed = facts.stated("cross_attention_layers")
    if listed is None:
        return facts.assume("cross_attention_layers", list(range(3, layer_count(facts), 5)))
    if not isinstance(listed, list | tuple):
        raise ConfigError("value-impossible", f"config: cross_attention_layers={listed!r} is not a list of layers", "")
    return list(listed)


def has_its_rotation(facts: Facts) -> bool:
    """Whether the keys that switch a type's rotation on are set."""
    return all(
        (facts.switch(key) if isinstance(value, bool) else facts.get(key)) == value
        for key, value in facts.rule.only_if.items()
    )


def _no_rope_layers(facts: Facts, layer: int) -> bool:
    """1 marks a layer that rotates, for all that the name says."""
    listed = facts.stated("no_rope_layers")
    if listed is not None and listed != []:  # an empty list counts as none in transformers
        if not isinstance(listed, list | tuple) or layer >= len(listed) or listed[layer] not in (0, 1):
            raise ConfigError(
                "value-impossible", f"config: no_rope_layers={listed!r} is not a list of 0 and 1, one a layer", ""
            )
        every = facts.stated("no_rope_layer_interval")
        if every is not None and (listed[layer] == 1) != ((layer + 1) % facts.needed("no_rope_layer_interval") != 0):
            facts.overruled["no_rope_layer_interval"] = "no_rope_layers"
        return listed[layer] == 1
    every = facts.count("no_rope_layer_interval") or 4
    facts.assume("no_rope_layers", f"every {every}th")
    return (layer + 1) % every != 0


def layer_base(facts: Facts, layer: int) -> float | None:
    """The layer's own base where layer_rope_theta lists one a layer, 0 for no rotation; None without a list."""
    listed = facts.stated("layer_rope_theta") if "layer_rope_theta" in (facts.rule.nope or "") else None
    if listed is None:
        if "layer_rope_theta" in (facts.rule.nope or ""):
            facts.assume("layer_rope_theta", "none")
        return None
    if not isinstance(listed, list | tuple) or layer >= len(listed) or not isinstance(listed[layer], int | float):
        raise ConfigError("value-impossible", f"config: layer_rope_theta={listed!r} is not a number a layer", "")
    return float(listed[layer])
