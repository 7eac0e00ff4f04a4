"""Megatron-LM: flags of pretrain_gpt.py; the weights go through a converter of their own."""

from ropewalk.checkpoints.recipes.recipe import DOCUMENTED, REFUSED, Recipe, refusal
from ropewalk.checkpoints.spec import ModelSpec
from ropewalk.scaling import Llama3

SOURCE = (
    "Megatron-LM's code at 00caa53: megatron/training/arguments.py (the flags), gpt_builders.py (what it hands on), "
    "megatron/core/models/common/embeddings/rotary_pos_embedding.py; gpt_builders.py at fcb181a too; read in "
    "December 2026"
)


def megatron(spec: ModelSpec, name: str) -> Recipe:
    """The flags that give the model these frequencies."""
    base = spec.main.base
    reason = refusal("Megatron", spec)
    if base is None or not spec.is_uniform:
        reason = "its layers do not all rotate whole heads alike, which these flags cannot say"
    elif not reason and base != round(base):
        reason = f"--rotary-base is read as a whole number, and this base is {base!r}"
    if reason:
        return Recipe("megatron", REFUSED, "", SOURCE, reason)
    assert base is not None
    flags = ["--position-embedding-type rope", f"--rotary-base {round(base)}"]
    if spec.max_length is not None:
        flags += [f"--max-position-embeddings {spec.max_length}", f"--seq-length {spec.max_length}"]
    flags += ["--use-rope-scaling"] if isinstance(spec.scaling, Llama3) else []
    return Recipe("megatron", DOCUMENTED, " ".join(flags) + "\n", SOURCE)
