"""Put the kernel into a loaded transformers model, and take it out again."""

import inspect
from types import FunctionType, MethodType
from typing import Any

from torch import nn

from ropewalk._errors import VerificationError
from ropewalk.checkpoints.pairing import APPLY, Apply, attentions, calling, in_layout, layouts_of


class Patched:
    """A model whose attention rotates by `kernels.rotate`; `undo` puts its own code back, as does leaving a `with`."""

    def __init__(self, modules: list[nn.Module]) -> None:
        self.modules = modules

    def undo(self) -> None:
        """The model as it was. A second call does nothing."""
        for module in self.modules:
            module.__dict__.pop("forward", None)
        self.modules = []

    def __enter__(self) -> "Patched":
        return self

    def __exit__(self, *raised: object) -> None:
        self.undo()


def patch(model: nn.Module) -> Patched:
    """Rotate queries and keys of a loaded transformers model in one pass, in float32 and rounded once.

    The model's own tables are used, so that its scaling stays in force; its rotation alone is replaced, in this model
    and in no other. Whether the two rotate alike is tried on random numbers beforehand.

    Args:
        model: one whose attention calls `apply_rotary_pos_emb(q, k, cos, sin)`: Llama, Mistral, Qwen, Gemma, Phi-3,
            SmolLM and most others.

    Returns:
        What undoes it.

    Raises:
        VerificationError: a model that has no such call, is patched already, or rotates in another way.

    Example:
        >>> from transformers import LlamaConfig, LlamaForCausalLM
        >>> tiny = dict(vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1)
        >>> model = LlamaForCausalLM(LlamaConfig(num_attention_heads=2, num_key_value_heads=1, **tiny)).eval()
        >>> import torch
        >>> tokens = torch.arange(8)[None]
        >>> before = model(tokens).logits
        >>> with patch(model):
        ...     after = model(tokens).logits
        >>> torch.allclose(before, after, atol=1e-6)
        True
    """
    found = attentions(model)
    if not found:
        raise VerificationError(f"patch: no module of {type(model).__name__} calls {APPLY}; nothing was changed")
    if any("forward" in vars(module) for module in found):
        raise VerificationError(f"patch: {type(model).__name__} is patched already; undo that first")
    replaced = {kind: _replacement(kind) for kind in {type(module) for module in found}}
    for module in found:
        module.forward = MethodType(replaced[type(module)], module)
    return Patched(found)


def _replacement(kind: type[nn.Module]) -> FunctionType:
    """The class's own forward, which finds our rotation under the name that it calls."""
    forward: Any = inspect.unwrap(kind.forward)  # of the decorator by which transformers 4 renames old arguments
    return calling(kind, _like(kind.__name__, forward.__globals__[APPLY]))


def _like(owner: str, theirs: Apply) -> Apply:
    """Our rotation in the layout of theirs, told by what theirs does to random numbers."""
    tables, layout = layouts_of(f"patch: {owner}", theirs)
    return in_layout(layout, tables)
