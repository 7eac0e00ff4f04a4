"""Load a causal language model."""

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ropewalk._errors import RopewalkError, VerificationError
from ropewalk.checkpoints.config import from_config
from ropewalk.checkpoints.loader import quietly, transformers, where
from ropewalk.checkpoints.pairing import turn
from ropewalk.checkpoints.spec import INTERLEAVE, ModelSpec
from ropewalk.checkpoints.weights import opened, quantisation, shards

SHIPPED = Path(str(files("ropewalk") / "shipped"))


@dataclass(frozen=True)
class Checkpoint:
    """A loaded model with what is needed to measure and to write it."""

    path: Path
    spec: ModelSpec
    model: Any  # a transformers PreTrainedModel
    dtype: torch.dtype = torch.float32  # of what is not quantised

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return self.model.device

    def hidden(self, tokens: Tensor, positions: Tensor | None = None) -> Tensor:
        """Last hidden states [B, T, C] of tokens [B, T] at positions [B, T], 0 .. T-1 when left out.

        The all-ones mask matters: without one transformers takes a jump in the positions for the border
        between packed documents and cuts attention there.
        """
        tokens, positions = tokens.to(self.device), None if positions is None else positions.to(self.device)
        mask = torch.ones_like(tokens)
        decoder = self.model.get_decoder()
        return decoder(input_ids=tokens, attention_mask=mask, position_ids=positions, use_cache=False).last_hidden_state

    def head(self, hidden: Tensor) -> Tensor:
        """Logits of hidden states."""
        return self.model.get_output_embeddings()(hidden)


def load(source: str | Path, *, dtype: torch.dtype = torch.float32, device: str | torch.device = "cpu") -> Checkpoint:
    """Load the model at `source`, a Hugging Face directory or a .gguf file.

    Args:
        source: where it is.
        dtype: of the weights in memory. On the CPU weights that are stored in it are not copied: they are the pages of
            their file. Of a quantised checkpoint, of all that is not quantised; the rest stays as it is stored.
        device: where it computes.

    Raises:
        RopewalkError: no rotary model, weights in another format than safetensors or GGUF, a damaged file, a
            quantisation that transformers cannot load here.
    """
    checkpoint = as_it_is(Path(source), dtype, device)
    _check_head(checkpoint)
    return checkpoint


def as_it_is(path: Path, dtype: torch.dtype = torch.float32, device: str | torch.device = "cpu") -> Checkpoint:
    """`load` of a model whose logits may be more than the output layer of its hidden states."""
    spec = from_config(path)
    folder, safe = where(path)
    if path.suffix == ".gguf":
        if spec.scaling is not None:
            raise RopewalkError(
                f"{path}: it states a scaling ({spec.scaling}), which transformers drops from a GGUF; use the "
                "checkpoint that it was converted from"
            )
        weights = {"quantization_config": transformers().GgufConfig(dequantize=True)}
    else:
        check_weights(path)
        weights = {"use_safetensors": True}
    quantised = quantisation(spec.config)
    if quantised or str(device) != "cpu":
        weights["device_map"] = {"": str(device)}  # straight to it; quantised weights cannot be moved afterwards
    with quietly(path, f"a checkpoint quantised by {quantised}" if quantised else "it"):
        model, info = transformers().AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, output_loading_info=True, **safe, **weights
        )
    for kind in ("missing_keys", "mismatched_keys"):
        if info[kind]:  # the loader would fill them with random numbers
            raise RopewalkError(f"{path}: {kind.replace('_', ' ')} in the weights: {', '.join(map(str, info[kind]))}")
    if spec.turned:
        _turn(path, model, spec)
    return Checkpoint(path, spec, model.eval(), dtype)


def _turn(path: Path, model: Any, spec: ModelSpec) -> None:
    """Make transformers' model pair features as the weights need it."""
    assert spec.turned is not None
    try:
        if spec.part:
            raise VerificationError(f"it is read by its {spec.part} alone")
        turn(model, spec.turned)
    except VerificationError as error:
        raise RopewalkError(
            f"{path}: its weights are laid out for {spec.turned} pairs, as {INTERLEAVE} says, and transformers' "
            f"{spec.model_type!r} cannot be made to turn those ({error}); use the checkpoint that it was converted from"
        ) from error


def check_weights(path: Path) -> None:
    """Refuse a directory whose weights are missing, damaged or not safetensors, before anything is loaded."""
    found = shards(path)
    for index in path.glob("*.safetensors.index.json"):
        missing = _named_by(index) - {shard.name for shard in found}
        if missing:
            raise RopewalkError(f"{index}: it names {', '.join(sorted(missing))}, which is not there; fetch it again")
    for shard in found:
        with opened(shard):
            pass


def _named_by(index: Path) -> set[str]:
    try:
        return set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RopewalkError(f"{index}: not an index of safetensors shards ({error!r}); fetch it again") from error


def _check_head(checkpoint: Checkpoint) -> None:
    """Hold hidden-then-head to the model's own logits: some models scale or cap them on the way out."""
    tokens = torch.arange(8, device=checkpoint.device)[None] % checkpoint.model.config.vocab_size
    with torch.inference_mode():
        ours = checkpoint.head(checkpoint.hidden(tokens)).float()
        mask = torch.ones_like(tokens)
        theirs = checkpoint.model(input_ids=tokens, attention_mask=mask, use_cache=False).logits.float()
    if not ours.isfinite().all():
        raise RopewalkError(f"{checkpoint.path}: its logits are not finite numbers; the weights are damaged")
    if not torch.allclose(ours, theirs, rtol=1e-3, atol=1e-3):
        raise VerificationError(
            f"{checkpoint.path}: its logits are not the output layer of its hidden states; losses would be wrong"
        )
