"""Put the kernel, a scaling or another encoding into a loaded transformers model, and take it out again."""

from torch import nn

from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.encoding_patch import encoded
from ropewalk.checkpoints.forwards import APPLY, Patched, own, put, remade, rotating
from ropewalk.checkpoints.pairing import Apply, in_layout, layouts_of
from ropewalk.modules.encoding import Encoding
from ropewalk.scaling import Scaling


def patch(model: nn.Module, *, scaling: Scaling | None = None, encoding: Encoding | None = None) -> Patched:
    """Let a loaded transformers model rotate by our kernel, or under another scaling, or take another encoding.

    With neither `scaling` nor `encoding` queries and keys are rotated in one pass, in float32 and rounded once, by the
    model's own tables, so that its scaling stays in force.

    With one of them positions are the arguments of each call alone: those that the model is given, else counted
    from `attention_mask`, so that padding counts for nothing, and a row's neighbours neither. What follows the
    length (`DynamicNTK`, `LongRoPE`) has one length a row. Where that changes the frequencies under a cache, `generate`
    reads the whole text again, since what the cache holds of the second layer on came out of the old ones; who calls
    the model with such a cache is told so.

    This model alone is changed, and tried beforehand: on a short text, padded and with a cache, it has to
    give its own logits under its own encoding, and others where the new encoding differs.

    Args:
        model: one whose attention calls `apply_rotary_pos_emb(q, k, cos, sin)`: Llama, Mistral, Qwen, Gemma, Phi,
            NeoX, GLM, SmolLM and most others. For `scaling` and `encoding`, of transformers 5.
        scaling: in place of the config's own, on the layers that `extend` scales: those that rotate as the main one.
        encoding: in place of the rotation, in every layer that rotates; one that answers at the rotation's door, or at
            the bias's and the relation's. What it learns are parameters of its own, not of the model.

    Returns:
        What undoes it.

    Raises:
        RopewalkError: both are given, or something else than a scaling or an encoding; a config that cannot be read.
        VerificationError: a model that has no such call, is patched already, or rotates in another way; a change that
            does not take effect. Nothing is changed then.

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
        >>> from ropewalk import NTK
        >>> with patch(model, scaling=NTK(4.0)):
        ...     torch.equal(before, model(tokens).logits)
        False
    """
    if scaling is not None and encoding is not None:
        raise RopewalkError("patch: give scaling or encoding; an encoding brings its own: Rotary(..., scaling=...)")
    if scaling is not None or encoding is not None:
        return encoded(model, scaling, encoding)
    found = rotating(model)
    kinds = {type(module) for module in found}
    replaced = {kind: remade(kind, {APPLY: _like(kind.__name__, own(kind).__globals__[APPLY])}) for kind in kinds}
    for module in found:
        put(module, replaced[type(module)])
    return Patched(found)


def _like(owner: str, theirs: Apply) -> Apply:
    """Our rotation in the layout of theirs, told by what theirs does to random numbers."""
    tables, layout = layouts_of(f"patch: {owner}", theirs)
    return in_layout(layout, tables)
