"""Read a Llama-like checkpoint into `Decoder`."""

import re
from pathlib import Path

import torch
from torch import Tensor

from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.config import from_config
from ropewalk.checkpoints.load import check_weights
from ropewalk.models.decoder import Decoder

# transformers' names of weights -> ours.
NAMES = {
    r"model\.embed_tokens\.": "embedding.",
    r"model\.norm\.": "norm.",
    r"lm_head\.": "head.",
    r"model\.layers\.(\d+)\.input_layernorm\.": r"blocks.\1.attention_norm.",
    r"model\.layers\.(\d+)\.post_attention_layernorm\.": r"blocks.\1.feed_norm.",
    r"model\.layers\.(\d+)\.self_attn\.o_proj\.": r"blocks.\1.attention.out.",
    r"model\.layers\.(\d+)\.self_attn\.([qkv])_proj\.": r"blocks.\1.attention.\2.",
    r"model\.layers\.(\d+)\.mlp\.(gate|up|down)_proj\.": r"blocks.\1.\2.",
}


LLAMA_LIKE = ("llama", "mistral")


def load(path: str | Path, *, numerics: str = "float64") -> Decoder:
    """The checkpoint in the directory `path` as a `Decoder`, its scaling included, in the dtype of its weights.

    Args:
        path: a directory with config.json and *.safetensors of a model that is Llama but for its sizes: no biases,
            no norms of queries and keys, no experts.
        numerics: of its rotary encoding; "float32" gives transformers' bits.

    Raises:
        RopewalkError: a checkpoint with weights that `Decoder` has no place for, or that lacks some; a damaged file.

    Example:
        >>> from ropewalk.checkpoints.load import SHIPPED
        >>> load(SHIPPED)(torch.zeros(1, 4, dtype=torch.int64)).shape
        torch.Size([1, 4, 259])
    """
    path = Path(path)
    spec = from_config(path)
    if spec.model_type not in LLAMA_LIKE:
        raise RopewalkError(
            f"{path}: a {spec.model_type!r} model is not Llama but for its sizes; Decoder takes {', '.join(LLAMA_LIKE)}"
        )
    check_weights(path)
    weights = _weights(path)
    config, first = spec.config, spec.layers[0]
    rotary = [layer.rotary(numerics=numerics) for layer in spec.layers]
    with torch.device("meta"):
        model = Decoder(
            config["vocab_size"],
            config["hidden_size"],
            layers=config["num_hidden_layers"],
            heads=config["num_attention_heads"],
            encoding=rotary,
            kv_heads=config.get("num_key_value_heads"),
            head_dim=first.head_dim,
            hidden=config["intermediate_size"],
            window=[layer.window for layer in spec.layers],
            eps=config["rms_norm_eps"],
        )
    if config.get("tie_word_embeddings"):
        weights["head.weight"] = weights["embedding.weight"]
    try:
        model.load_state_dict(weights, assign=True)
    except RuntimeError as error:
        raise RopewalkError(f"{path}: Decoder does not fit this checkpoint: {error}") from error
    return model.eval()


def _weights(path: Path) -> dict[str, Tensor]:
    """Every weight of the directory under our name for it."""
    from safetensors.torch import load_file

    found: dict[str, Tensor] = {}
    for shard in sorted(path.glob("*.safetensors")):
        found |= {_ours(name): weight for name, weight in load_file(shard).items()}
    return found


def _ours(name: str) -> str:
    for theirs, ours in NAMES.items():
        if re.match(theirs, name):
            return re.sub(theirs, ours, name, count=1)
    return name
