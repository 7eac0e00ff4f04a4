"""A loaded model tried on short texts before and after a change."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ropewalk._errors import VerificationError

TOKENS = 12


@contextmanager
def still(model: nn.Module) -> Iterator[None]:
    """Neither dropout nor gradients for a while."""
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, was in training.items():
            module.training = was


def near(model: Any) -> Tensor:
    """Logits of real tokens of two texts of 12, the second behind padding: at once, then with a cache."""
    tokens = _tokens(model, TOKENS).repeat(2, 1)
    mask = torch.ones_like(tokens)
    mask[1, :3] = 0
    part = TOKENS - 4
    first = model(input_ids=tokens[:, :part], attention_mask=mask[:, :part], use_cache=True)
    then = model(input_ids=tokens[:, part:], attention_mask=mask, past_key_values=first.past_key_values, use_cache=True)
    whole = model(input_ids=tokens, attention_mask=mask, use_cache=False)
    halves = torch.cat((_read(first), _read(then)), dim=1)
    return torch.stack((_read(whole), halves))[:, mask.bool()].float()


def far(model: Any, apart: int) -> Tensor:
    """Logits of 16 tokens that stand `apart`, where slow frequencies show."""
    tokens = _tokens(model, 16)
    places = apart * torch.arange(16, device=tokens.device)[None]
    out = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), position_ids=places, use_cache=False)
    return _read(out).float()


def hold(told: str, found: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    """Refuse logits that are not those expected, up to what rounding to `dtype` explains on the whole."""
    allowed = (1e-3 if dtype.itemsize >= 4 else 0.05) * expected.std()
    if not (found - expected).square().mean().sqrt() <= allowed:  # what is no number is refused too
        raise VerificationError(f"patch: {told}; nothing was changed")


def tried(model: Any, look: Callable[[Any], Tensor]) -> Tensor:
    """What `look` sees of a model, every failure of it a refusal."""
    try:
        return look(model)
    except Exception as error:
        raise VerificationError(
            f"patch: {type(model).__name__} cannot be changed in this way: {error}; nothing was changed"
        ) from error


def _tokens(model: Any, count: int) -> Tensor:
    embedding = model.get_input_embeddings()
    return torch.arange(count, device=embedding.weight.device)[None] % embedding.weight.shape[0]


def _read(output: Any) -> Tensor:
    return output.logits if hasattr(output, "logits") else output.last_hidden_state
