"""Which features a loaded transformers model pairs when it rotates, and the same model made to pair the others."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn

from ropewalk._errors import VerificationError
from ropewalk.checkpoints.forwards import APPLY, put, remade
from ropewalk.functional.rotary import LAYOUTS
from ropewalk.kernels import rotate

OTHERS = "apply_rotary"  # what its other names begin with
OPTIONS = {"position_ids", "unsqueeze_dim"}  # of which the first has no effect in transformers 4 and is gone in 5
Apply = Callable[..., tuple[Tensor, Tensor]]


def attentions(model: nn.Module) -> list[nn.Module]:
    """The modules that rotate queries and keys by a function of the name APPLY."""
    return [module for module in model.modules() if APPLY in _names(_forward(module))]


def layouts_of(owner: str, theirs: Apply) -> tuple[str, str]:
    """How the tables that `theirs` takes repeat their angles, and which features it pairs: told by random numbers.

    Args:
        owner: whose function it is, for a refusal.
        theirs: called as Llama's, with q, k, cos and sin, whose tables have every angle twice.

    Returns:
        "half" or "interleaved" of the tables, and of the rotation. The two differ in GLM, for one.

    Raises:
        VerificationError: another call, or another rotation.
    """
    parameters = inspect.signature(theirs).parameters
    if list(parameters)[:4] != ["q", "k", "cos", "sin"] or not set(list(parameters)[4:]) <= OPTIONS:
        raise VerificationError(f"{owner}'s {APPLY} takes {', '.join(parameters)}, not q, k, cos and sin as Llama's")
    random = torch.Generator().manual_seed(0)
    q, k = torch.randn(1, 2, 5, 16, generator=random), torch.randn(1, 1, 5, 16, generator=random)
    angles = torch.randn(1, 5, 8, generator=random)
    for tables in LAYOUTS:
        wide = angles.repeat(1, 1, 2) if tables == "half" else angles.repeat_interleave(2, dim=-1)
        try:
            expected = theirs(q.clone(), k.clone(), wide.cos(), wide.sin())
        except Exception as error:
            raise VerificationError(f"{owner}'s {APPLY} cannot be called as Llama's: {error}") from error
        for layout in LAYOUTS:
            ours = in_layout(layout, tables)(q, k, wide.cos(), wide.sin())
            if all(torch.allclose(a, b, atol=1e-5) for a, b in zip(ours, expected, strict=True)):
                return tables, layout
    raise VerificationError(f"{owner}'s {APPLY} turns neither halves nor neighbours; nothing was changed")


def in_layout(layout: str, tables: str) -> Apply:
    """transformers' call: cos and sin in full width, each angle twice as `tables` says, [B, T, R]."""

    def apply(
        q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *, position_ids: Any = None, unsqueeze_dim: int = 1
    ) -> tuple[Tensor, Tensor]:
        pairs = cos.shape[-1] // 2
        once = [(x[..., :pairs] if tables == "half" else x[..., ::2]).float() for x in (cos, sin)]
        return rotate(q, k, (once[0], once[1]), layout=layout, axes="bhtd" if unsqueeze_dim == 1 else "bthd")

    apply.__name__ = f"{layout}_by_{tables}"
    return apply


def code_layout(model: nn.Module) -> str:
    """The pairing by which the attention of `model` rotates as it is now, turned or not.

    Raises:
        VerificationError: modules that disagree, or whose rotation cannot be told.
    """
    found = {_layouts(type(module).__name__, _forward(module))[1] for module in _told(model)}
    if len(found) > 1:
        raise VerificationError(f"{type(model).__name__}: some of its modules turn halves and some neighbours")
    return found.pop()


def turn(model: nn.Module, layout: str) -> None:
    """Make the attention of a transformers model pair features as `layout` says, from its own tables.

    Raises:
        VerificationError: a model whose rotation is no call of APPLY that can be told.
    """
    found = _told(model)
    made = {kind: remade(kind, {APPLY: _turning(kind, layout)}) for kind in {type(module) for module in found}}
    for module in found:
        put(module, made[type(module)])


@contextmanager
def turned(model: nn.Module, layout: str) -> Iterator[None]:
    """`turn` for the length of a block."""
    before = [(module, vars(module).get("forward")) for module in _told(model)]
    try:
        turn(model, layout)
        yield
    finally:
        for module, forward in before:
            vars(module).pop("forward", None)
            if forward is not None:
                module.forward = forward


def _told(model: nn.Module) -> list[nn.Module]:
    """The attention modules, if what each of them calls is known."""
    found = attentions(model)
    if not found:
        raise VerificationError(f"no module of {type(model).__name__} calls {APPLY}: how it pairs cannot be told")
    for module in found:
        several = sorted(name for name in _names(_forward(module)) if name.startswith(OTHERS))
        if several != [APPLY]:
            raise VerificationError(
                f"{type(module).__name__} calls {' or '.join(several)}: which of them rotates cannot be told"
            )
    return found


def _turning(kind: type[nn.Module], layout: str) -> Apply:
    return in_layout(layout, _layouts(kind.__name__, inspect.unwrap(kind.forward))[0])


def _layouts(owner: str, forward: Any) -> tuple[str, str]:
    return layouts_of(owner, forward.__globals__[APPLY])


def _forward(module: nn.Module) -> Any:
    """What a module runs: its class's forward, or one that was put into its place."""
    own = vars(module).get("forward", type(module).forward)
    return inspect.unwrap(getattr(own, "__func__", own))


def _names(forward: Any) -> tuple[str, ...]:
    code = getattr(forward, "__code__", None)
    return code.co_names if isinstance(code, CodeType) else ()
