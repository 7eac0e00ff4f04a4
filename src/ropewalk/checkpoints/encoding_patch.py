"""Another scaling or another encoding inside a loaded transformers model."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from ropewalk._errors import RopewalkError, VerificationError
from ropewalk.attention import attend
from ropewalk.checkpoints.calls import PREPARE, Calls
from ropewalk.checkpoints.carried import Attention, carry
from ropewalk.checkpoints.config import from_config
from ropewalk.checkpoints.forwards import APPLY, Patched, names, put, remade, rotating
from ropewalk.checkpoints.loader import transformers
from ropewalk.checkpoints.spec import LayerSpec
from ropewalk.checkpoints.trial import far, hold, near, still, tried
from ropewalk.kernels import rotate
from ropewalk.modules.encoding import Encoding, check_encoding
from ropewalk.modules.nope import NoPE
from ropewalk.modules.rotary import Rotary
from ropewalk.scaling import Scaling

FUNCTIONS = "ALL_ATTENTION_FUNCTIONS"  # what transformers calls its table of attention functions
PAIRS = ("bias", "relation")  # the doors at which a query and a key meet


@dataclass(frozen=True)
class Swap:
    """An attention module, what its config says it rotates by, and what it shall take."""

    module: Any  # an nn.Module
    own: Encoding
    new: Encoding


class Even(Encoding):
    """A bias of nothing, which sends attention the way of all biases."""

    def bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        """Zeros [1, T, S] or [B, 1, T, S]."""
        return (0.0 * (k_positions[..., None, :] - q_positions[..., :, None]))[..., None, :, :]


def encoded(model: Any, scaling: Scaling | None, encoding: Encoding | None) -> Patched:
    """`patch` with a scaling or an encoding: tried under the model's own encoding first, then under the new one."""
    found = rotating(model)
    _check_model(model)
    swaps, apart = _swaps(model, found, scaling, encoding)
    pairs = encoding is not None and _pairs(encoding)
    look = partial(far, apart=1 if pairs else apart)
    with still(model):
        expected = tried(model, near)
        with _installed(model, {swap.module: swap.own for swap in swaps}):
            told = f"{type(model).__name__} does not give its own logits under the rotation that its config states"
            hold(told, tried(model, near), expected, model.dtype)
            before = tried(model, look)
        if pairs:
            _try_attention(model, found)
        patched = _installed(model, {swap.module: swap.new for swap in swaps})
        try:
            if pairs:
                tried(model, near)
            _check_effect(swaps, tried(model, look), before, apart, model.dtype)
        except BaseException:
            patched.undo()
            raise
    return patched


def _check_model(model: nn.Module) -> None:
    version = transformers().__version__
    if version.startswith("4."):
        raise VerificationError(
            f"patch: a scaling or an encoding needs transformers 5, whose generate can be told to read a text again; "
            f"this is {version}; nothing was changed"
        )
    if any(parameter.is_meta for parameter in model.parameters()):
        raise VerificationError("patch: the model has no weights yet, and cannot be tried; nothing was changed")


def _swaps(
    model: Any, found: list[nn.Module], scaling: Scaling | None, encoding: Encoding | None
) -> tuple[list[Swap], int]:
    """What each module rotates by and shall take, and how far apart 16 tokens reach twice the native length."""
    spec = from_config(model.config)
    if not spec.main.rotates or any(layer.axes is not None for layer in spec.layers):
        raise VerificationError(
            f"patch: {spec.model_type!r} does not rotate by positions of one coordinate; nothing was changed"
        )
    if scaling is not None and not isinstance(scaling, Scaling):
        raise RopewalkError(f"patch: scaling={scaling!r} is no scaling; give an object such as NTK(factor=4.0)")
    if encoding is not None:
        _check_doors(encoding)
    after = spec.layers if scaling is None else spec.extended(scaling, spec.max_length or 0).layers
    made: dict[LayerSpec, Rotary] = {}  # layers alike share one
    swaps = []
    for module in found:
        index = getattr(module, "layer_idx", None)
        if not isinstance(index, int) or index >= len(spec.layers) or not spec.layers[index].rotates:
            raise VerificationError(
                f"patch: a {type(module).__name__} rotates, and the config says of no layer that it is this one; "
                "nothing was changed"
            )
        own, new = (_rotary(layers[index], made) for layers in (spec.layers, after))
        swaps.append(Swap(module, own, new if encoding is None else encoding))
    return swaps, max(1, 2 * (spec.native_length or 1024) // 16)


def _pairs(encoding: Encoding) -> bool:
    """Whether it asks for the positions of queries and keys at once."""
    return any(door in PAIRS for door in encoding.doors)


def _rotary(layer: LayerSpec, made: dict[LayerSpec, Rotary]) -> Rotary:
    key = replace(layer, window=None, kind="")
    return made.setdefault(key, key.rotary())


def _check_doors(encoding: Encoding) -> None:
    if "embed" in check_encoding("patch", encoding).doors:
        raise VerificationError(
            f"patch: {type(encoding).__name__} is added to the input, not to attention: patch with NoPE() and give the "
            "model inputs_embeds=encoding.embed(...); nothing was changed"
        )


def _installed(model: Any, encodings: dict[nn.Module, Encoding]) -> Patched:
    """The model with an encoding for each attention module; a pure exchange of functions, nothing tried."""
    owner = _owner(model)
    forwards = {(type(module), one): remade(type(module), _replaced(module, one)) for module, one in encodings.items()}
    for module, one in encodings.items():
        put(module, forwards[type(module), one])
    tables = owner.rotary_emb
    put(tables, _instead_of_tables)
    calls = Calls(owner, encodings.values(), carries=any(map(_pairs, encodings.values())))
    undoing = [calls.stop]
    if calls.moving and hasattr(model, PREPARE):
        setattr(model, PREPARE, calls.prepare(getattr(model, PREPARE)))
        undoing.append(partial(model.__dict__.pop, PREPARE))
    undoing.append(partial(tables.__dict__.pop, "forward"))
    return Patched(list(encodings), undoing)


def _owner(model: nn.Module) -> Any:
    """The module that makes the tables which its attention is given."""
    owners = [module for module in model.modules() if "rotary_emb" in dict(module.named_children())]
    if len(owners) != 1:
        raise VerificationError(
            f"patch: {len(owners)} modules of {type(model).__name__} have a rotary_emb, and which one serves which "
            "attention cannot be told; nothing was changed"
        )
    return owners[0]


def _instead_of_tables(self: nn.Module, x: Tensor, position_ids: Tensor, *kind: Any, **options: Any) -> Any:
    """What the rotation is given in place of cos and sin: the positions themselves."""
    return position_ids, position_ids


def _replaced(module: nn.Module, encoding: Encoding) -> dict[str, object]:
    """The functions that attention shall find under the names it calls."""
    if not _pairs(encoding):
        return {APPLY: partial(_turn, encoding)}
    if not {FUNCTIONS, "get_interface"} <= set(names(type(module))):
        raise VerificationError(
            f"patch: {type(module).__name__} does not look up its attention function in {FUNCTIONS}; an encoding "
            "with a bias or a relation needs that; nothing was changed"
        )
    return {APPLY: carry, FUNCTIONS: Attention(encoding)}


def _turn(
    encoding: Encoding, q: Tensor, k: Tensor, positions: Tensor, _: Any = None, **options: Any
) -> tuple[Tensor, Tensor]:
    """In place of the rotation: by `encoding`, at the positions that stand where cos stood."""
    positions = positions[0] if len(positions) == 1 else positions
    if _is_narrow(encoding, q.shape[-1]):
        return rotate(q, k, encoding.tables(positions), layout=encoding.layout)
    return encoding.rotate(q, k, positions, positions)


def _is_narrow(encoding: Encoding, width: int) -> TypeGuard[Rotary]:
    """Whether a model such as Phi hands over no more of a head than what turns."""
    if not isinstance(encoding, Rotary) or encoding.block != "leading":
        return False
    return encoding.rotary_dim <= width < encoding.head_dim


def _try_attention(model: Any, found: list[nn.Module]) -> None:
    """Hold `attend` to the model's own attention: a bias of nothing must give what no encoding gives."""
    with _installed(model, dict.fromkeys(found, NoPE())):
        expected = tried(model, near)
    with _installed(model, dict.fromkeys(found, Even())):
        hold("attend does not give what the model's own attention gives", tried(model, near), expected, model.dtype)


def _check_effect(swaps: list[Swap], after: Tensor, before: Tensor, apart: int, dtype: torch.dtype) -> None:
    """Logits that change if and only if an encoding does."""
    if all(_alike(swap, apart) for swap in swaps):
        hold("the encoding is the model's own, and its logits changed", after, before, dtype)
    elif torch.equal(after, before):
        raise VerificationError(
            "patch: the encoding was changed but the logits were not: the model does not read it there; "
            "nothing was changed"
        )


def _alike(swap: Swap, apart: int) -> bool:
    """Whether the two encodings do the same to queries and keys out to twice the native length, or, where a pair of
    them is asked about, to 16 neighbours: which is what was looked at."""
    if not isinstance(swap.own, Rotary):
        return False
    heads = swap.module.config.num_attention_heads if _pairs(swap.new) else 1
    q, k = torch.randn(2, 1, heads, 16, swap.own.head_dim, generator=torch.Generator().manual_seed(0))
    q, k, where = (x.to(next(swap.module.parameters()).device) for x in (q, k, apart * torch.arange(16)))
    if _pairs(swap.new):
        out: list[Any] = [attend(q, k, k, causal=True, encoding=encoding) for encoding in (swap.own, swap.new)]
        return torch.allclose(out[0], out[1], atol=1e-5)
    turned = zip(swap.own.rotate(q, k, where, where), swap.new.rotate(q, k, where, where), strict=True)
    return all(torch.allclose(a, b, atol=1e-5) for a, b in turned)
