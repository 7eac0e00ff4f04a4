"""How each engine is made to read a checkpoint: `recipes` for all of them, `recipe_for` for one."""

import difflib
from collections.abc import Callable

from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.config import from_config
from ropewalk.checkpoints.recipes.huggingface import transformers_4, transformers_5
from ropewalk.checkpoints.recipes.llama_cpp import llama_cpp
from ropewalk.checkpoints.recipes.megatron import megatron
from ropewalk.checkpoints.recipes.recipe import Recipe
from ropewalk.checkpoints.recipes.serving import sglang, vllm
from ropewalk.checkpoints.spec import ModelSpec

ENGINES: dict[str, Callable[[ModelSpec, str], Recipe]] = {
    "transformers": transformers_5,
    "transformers-4": transformers_4,
    "vllm": vllm,
    "sglang": sglang,
    "llama.cpp": llama_cpp,
    "megatron": megatron,
}


def recipe_for(engine: str, spec: ModelSpec, name: str) -> Recipe:
    """How `engine` is made to read the checkpoint that commands call `name`.

    Args:
        engine: "transformers" (5), "transformers-4", "vllm", "sglang", "llama.cpp" or "megatron".
        spec: of the checkpoint, as `from_config` reads it, or as `ModelSpec.extended` plans it.
        name: a directory, a .gguf file or a model id, as it stands in the commands.

    Raises:
        RopewalkError: an unknown engine; the message names the nearest. A plan that no checkpoint can state.

    Example:
        >>> print(recipe_for("vllm", from_config("llama-2-7b"), "DIR").text, end="")
        vllm serve DIR --max-model-len 4096
    """
    if engine not in ENGINES:
        close = difflib.get_close_matches(engine.lower(), ENGINES, n=1, cutoff=0.4)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise RopewalkError(f"unknown engine {engine!r}{hint} Known are {', '.join(ENGINES)}")
    return ENGINES[engine](_as_read(spec), name)


def recipes(spec: ModelSpec, name: str) -> list[Recipe]:
    """One for every engine, refused ones among them."""
    return [recipe_for(engine, spec, name) for engine in ENGINES]


def _as_read(spec: ModelSpec) -> ModelSpec:
    """A plan as readers will find it written: a larger base, or divisors, where the scaling has no name of its own."""
    return from_config(spec.to_config()) if spec.changed else spec
