"""Put the kernel into a loaded transformers model, and take it out again."""

import inspect
import sys
from collections.abc import Callable
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from ropewalk._errors import VerificationError
from ropewalk.functional.rotary import LAYOUTS
from ropewalk.kernels import rotate

APPLY = "apply_rotary_pos_emb"  # what transformers calls it in nearly every model
OPTIONS = {"position_ids", "unsqueeze_dim"}  # of which the first has no effect in transformers 4 and is gone in 5
Apply = Callable[..., tuple[Tensor, Tensor]]


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
        >>> tokens = torch.arange(8)[None]
        >>> before = model(tokens).logits
        >>> with patch(model):
        ...     after = model(tokens).logits
        >>> torch.allclose(before, after, atol=1e-6)
        True
    """
    found = [module for module in model.modules() if APPLY in _names(inspect.unwrap(type(module).forward))]
    if not found:
        raise VerificationError(f"patch: no module of {type(model).__name__} calls {APPLY}; nothing was changed")
    if any("forward" in vars(module) for module in found):
        raise VerificationError(f"patch: {type(model).__name__} is patched already; undo that first")
    replaced = {kind: _replacement(kind) for kind in {type(module) for module in found}}
    for module in found:
        module.forward = MethodType(replaced[type(module)], module)
    return Patched(found)


def _names(forward: Any) -> tuple[str, ...]:
    code = getattr(forward, "__code__", None)
    return code.co_names if isinstance(code, CodeType) else ()


def _replacement(kind: type[nn.Module]) -> FunctionType:
    """The class's own forward, which finds our rotation under the name that it calls."""
    forward: Any = inspect.unwrap(kind.forward)  # of the decorator by which transformers 4 renames old arguments
    ours = _like(kind.__name__, forward.__globals__[APPLY])
    made = FunctionType(
        forward.__code__,
        _names_with(forward.__globals__, ours),
        forward.__name__,
        forward.__defaults__,
        forward.__closure__,
    )
    made.__kwdefaults__ = forward.__kwdefaults__
    return made


def _names_with(theirs: dict[str, Any], ours: Apply) -> dict[str, Any]:
    """The names of a module of transformers, but for the rotation; in a module, where torch.compile looks for them."""
    twin = ModuleType(f"{theirs['__name__']}.{__name__}")
    twin.__dict__.update({**theirs, APPLY: ours, "__name__": twin.__name__})
    sys.modules[twin.__name__] = twin
    return twin.__dict__


def _like(owner: str, theirs: Apply) -> Apply:
    """Our rotation in the layout of theirs, told by what theirs does to random numbers."""
    parameters = inspect.signature(theirs).parameters
    if list(parameters)[:4] != ["q", "k", "cos", "sin"] or not set(list(parameters)[4:]) <= OPTIONS:
        raise VerificationError(
            f"patch: {owner}'s {APPLY} takes {', '.join(parameters)}, not q, k, cos and sin as Llama's"
        )
    random = torch.Generator().manual_seed(0)
    q, k = torch.randn(1, 2, 5, 16, generator=random), torch.randn(1, 1, 5, 16, generator=random)
    angles = torch.randn(1, 5, 8, generator=random)
    for layout in LAYOUTS:
        ours = _in_layout(layout)
        wide = angles.repeat(1, 1, 2) if layout == "half" else angles.repeat_interleave(2, dim=-1)
        try:
            expected = theirs(q.clone(), k.clone(), wide.cos(), wide.sin())
        except Exception as error:
            raise VerificationError(f"patch: {owner}'s {APPLY} cannot be called as Llama's: {error}") from error
        if all(
            torch.allclose(a, b, atol=1e-5) for a, b in zip(ours(q, k, wide.cos(), wide.sin()), expected, strict=True)
        ):
            return ours
    raise VerificationError(f"patch: {owner}'s {APPLY} turns neither halves nor neighbours; nothing was changed")


def _in_layout(layout: str) -> Apply:
    """transformers' call: cos and sin in full width, each angle twice, [B, T, D]."""

    def apply(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
        pairs = cos.shape[-1] // 2
        once = [(x[..., :pairs] if layout == "half" else x[..., ::2]).float() for x in (cos, sin)]
        return rotate(
            q, k, (once[0], once[1]), layout=layout, axes="bhtd" if options.get("unsqueeze_dim", 1) == 1 else "bthd"
        )

    return apply
