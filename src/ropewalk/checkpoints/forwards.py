"""A module's own forward, which finds other functions under the names that it calls; and what puts it back."""

import inspect
import itertools
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from torch import nn

from ropewalk._errors import VerificationError

APPLY = "apply_rotary_pos_emb"  # what transformers calls the rotation in nearly every model
_count = itertools.count()


class Patched:
    """A model some of whose modules run other code; `undo` puts its own back, as does leaving a `with`."""

    def __init__(self, modules: list[nn.Module], undoing: Iterable[Callable[[], object]] = ()) -> None:
        self.modules = modules
        self._undoing = list(undoing)

    def undo(self) -> None:
        """The model as it was. A second call does nothing."""
        for module in self.modules:
            module.__dict__.pop("forward", None)
        for one in self._undoing:
            one()
        self.modules, self._undoing = [], []

    def __enter__(self) -> "Patched":
        return self

    def __exit__(self, *raised: object) -> None:
        self.undo()


def rotating(model: nn.Module) -> list[nn.Module]:
    """The modules that call the rotation by its usual name.

    Raises:
        VerificationError: there is none, or they run other code already.
    """
    found = [module for module in model.modules() if APPLY in names(type(module))]
    if not found:
        raise VerificationError(f"patch: no module of {type(model).__name__} calls {APPLY}; nothing was changed")
    if any("forward" in vars(module) for module in found):
        raise VerificationError(f"patch: {type(model).__name__} is patched already; undo that first")
    return found


def names(kind: type[nn.Module]) -> tuple[str, ...]:
    """The global names and attributes that a class's forward asks for."""
    code = getattr(own(kind), "__code__", None)
    return code.co_names if isinstance(code, CodeType) else ()


def own(kind: type[nn.Module]) -> Any:
    """A class's forward, without the decorator by which transformers 4 renames old arguments."""
    return inspect.unwrap(kind.forward)


def remade(kind: type[nn.Module], replaced: Mapping[str, object]) -> FunctionType:
    """The class's forward with some of its globals replaced, in a module of their own: torch.compile looks for them
    there."""
    forward = own(kind)
    twin = ModuleType(f"{forward.__globals__['__name__']}.ropewalk.{next(_count)}")
    twin.__dict__.update({**forward.__globals__, **replaced, "__name__": twin.__name__})
    sys.modules[twin.__name__] = twin
    made = FunctionType(forward.__code__, twin.__dict__, forward.__name__, forward.__defaults__, forward.__closure__)
    made.__kwdefaults__ = forward.__kwdefaults__
    weakref.finalize(made, sys.modules.pop, twin.__name__, None)
    return made


def put(module: nn.Module, forward: Callable[..., Any]) -> None:
    """Let this one module run `forward`."""
    module.forward = MethodType(forward, module)
