"""Hold a written checkpoint to the plan it was written from."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ropewalk._errors import VerificationError
from ropewalk.checkpoints.load import Checkpoint, load
from ropewalk.checkpoints.patch import read_frequencies, scaled
from ropewalk.checkpoints.spec import ModelSpec
from ropewalk.scaling import Scaled

PROBE = 64  # tokens whose logits are compared
BY_FACTORS = 2e-7  # relative, a pair: two float32 roundings, of the written divisor and of the quotient


def verify(folder: Path, original: Checkpoint, planned: ModelSpec) -> dict[str, Any]:
    """Reload `folder` in transformers and compare it with `planned`.

    Returns:
        A record of what was compared: reader, bit equality, the largest relative error, the factor, the logits.

    Raises:
        VerificationError: other frequencies or factor than planned, or logits other than those measured.
    """
    import transformers

    reloaded = load(folder, dtype=original.dtype, device=original.device)
    record = _compare_frequencies(reloaded, planned)
    tokens = torch.arange(PROBE)[None] % original.model.config.vocab_size
    rotary = planned.layers[0].rotary(numerics="float32")
    with torch.inference_mode():
        before, after = logits(original, tokens), logits(reloaded, tokens)
        with scaled(original.model, rotary.frequencies(PROBE)):
            expected = logits(original, tokens)
    changed = not torch.equal(before, after)
    if not changed and not torch.equal(before, expected):
        raise VerificationError(
            f"{folder}: reloaded, it gives the logits of the unscaled model: the scaling is not read"
        )
    error = (expected - after).abs().max().item()
    if not error <= within(original.dtype) * expected.abs().max().item():
        raise VerificationError(f"{folder}: reloaded, its logits are {error:.3g} away from those that were measured")
    return {
        "reader": f"transformers {transformers.__version__}",
        **record,
        "logits_changed": changed,
        "logits_max_error": error,
    }


def _compare_frequencies(reloaded: Checkpoint, planned: ModelSpec) -> dict[str, Any]:
    """The running model's frequencies against the plan, under transformers' numerics."""
    rotary = planned.layers[0].rotary(numerics="float32")
    equal, worst = True, 0.0
    assert planned.max_length is not None  # it was extended to one
    for tokens in (planned.max_length, 1):
        want = rotary.frequencies(tokens)
        for got in read_frequencies(reloaded.model, tokens):
            equal &= torch.equal(got.inv_freq.cpu(), want.inv_freq)
            worst = max(worst, _hold(reloaded, got, want))
    length = reloaded.model.config.max_position_embeddings
    if length != planned.max_length:
        raise VerificationError(f"{reloaded.path}: it claims {length} tokens, not the {planned.max_length} planned")
    return {
        "frequencies_bit_equal": equal,
        "frequencies_max_relative_error": worst,
        "attention_factor": want.attention_factor,
        "max_position_embeddings": length,
    }


def _hold(reloaded: Checkpoint, got: Scaled, want: Scaled) -> float:
    """The largest relative error of `got`, which must be within rounding of `want`."""
    error = ((got.inv_freq.cpu() - want.inv_freq).abs() / want.inv_freq).max().item()
    factors = abs(got.attention_factor - want.attention_factor)
    if not (error <= BY_FACTORS and factors <= 1e-9):  # worded so that a NaN fails
        raise VerificationError(
            f"{reloaded.path}: frequencies differ from the plan by up to {error:.2g} relative, "
            f"attention factor {got.attention_factor} against {want.attention_factor}"
        )
    return error


def within(dtype: torch.dtype) -> float:
    """How far logits computed in `dtype` may be from others, relative to the largest.

    A last bit in a frequency turns a last bit in a rotation, and eight of them cross the layers.
    """
    return max(1e-3, 8 * torch.finfo(dtype).eps)


def logits(checkpoint: Checkpoint, tokens: Tensor) -> Tensor:
    """Logits of tokens [B, T], in float32."""
    return checkpoint.head(checkpoint.hidden(tokens)).float()
