"""Apply a scaling to a loaded model, and read back what the running model uses."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ropewalk._errors import VerificationError
from ropewalk.scaling import Scaled


def rotary_modules(model: nn.Module) -> list[Any]:
    """The modules of a transformers model that hold rotary frequencies."""
    found = [
        m
        for m in model.modules()
        if isinstance(getattr(m, "inv_freq", None), Tensor) and hasattr(m, "attention_scaling")
    ]
    if not found:
        raise VerificationError(
            f"{type(model).__name__}: no module with rotary frequencies was found; nothing to scale"
        )
    return found


def read_frequencies(model: nn.Module, length: int) -> list[Scaled]:
    """The frequencies and factor of each rotary module, as the model uses them on `length` tokens.

    Each module is asked for the tables of the last position: length-dependent ones update themselves then.
    """
    found = []
    for module in rotary_modules(model):
        device = module.inv_freq.device
        with torch.inference_mode():
            module(torch.zeros(1, device=device), torch.tensor([[length - 1]], device=device))
        found.append(Scaled(module.inv_freq.detach().clone(), float(module.attention_scaling)))
    return found


@contextmanager
def scaled(model: nn.Module, frequencies: Scaled) -> Iterator[None]:
    """Run `model` under other rotary frequencies; it is as before when the block ends.

    Args:
        frequencies: [P] in any dtype; the model gets them as float32, which is what transformers holds.

    Raises:
        VerificationError: the model does not use them: another width, or logits that stay the same.
    """
    modules = rotary_modules(model)
    before = [(m, m.inv_freq, m.attention_scaling, m.rope_type) for m in modules]
    unscaled = _probe(model)
    try:
        for module in modules:
            if module.inv_freq.shape != frequencies.inv_freq.shape:
                have, given = module.inv_freq.shape[-1], frequencies.inv_freq.shape[-1]
                raise VerificationError(f"the model rotates {have} pairs, the scaling gives {given}")
            module.inv_freq = frequencies.inv_freq.to(module.inv_freq.device, torch.float32)
            module.attention_scaling = frequencies.attention_factor
            module.rope_type = "default"  # otherwise a length-dependent type would overwrite them in the next pass
        _check_effect(model, frequencies, before[0], unscaled)
        yield
    finally:
        for module, inv_freq, attention_scaling, rope_type in before:
            module.inv_freq, module.attention_scaling, module.rope_type = inv_freq, attention_scaling, rope_type


def _check_effect(model: nn.Module, planned: Scaled, before: tuple, unscaled: Tensor) -> None:
    _, inv_freq, factor, _ = before
    same = torch.equal(planned.inv_freq.float().cpu(), inv_freq.cpu()) and planned.attention_factor == factor
    if not same and torch.equal(_probe(model), unscaled):
        raise VerificationError(
            "the frequencies were changed but the logits did not: this model does not read them there"
        )


def _probe(model: Any) -> Tensor:
    """Logits of a short fixed sequence, long enough for a change of frequency to show.

    In 16 bits a slow pair shows none from one token to the next, so that there the tokens stand far apart.
    """
    device = next(model.parameters()).device
    tokens = torch.arange(16, device=device)[None] % model.config.vocab_size
    apart = 1 if model.dtype == torch.float32 else max(1, model.config.max_position_embeddings // 16)
    where = {} if apart == 1 else {"position_ids": apart * torch.arange(16, device=device)[None]}
    with torch.inference_mode():
        return model(input_ids=tokens, attention_mask=torch.ones_like(tokens), use_cache=False, **where).logits
