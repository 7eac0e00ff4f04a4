"""Extend the model that ships by every method that can be written, with what this transformers computes from each.

    python recipes/extended_by_every_method.py FOLDER

FOLDER gets a checkpoint a method; in each, `computed.safetensors` holds the frequencies and the attention factor of the
running model and the logits of a stretch of text four times its native length. `make test-4.57` holds transformers 4 to
them.
"""

import shutil
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

from ropewalk.checkpoints.load import SHIPPED, Checkpoint, load
from ropewalk.checkpoints.patch import read_frequencies
from ropewalk.checkpoints.readers import writable
from ropewalk.checkpoints.tokenizer import Tokenizer
from ropewalk.checkpoints.verify import logits
from ropewalk.checkpoints.write import write_checkpoint
from ropewalk.extend.methods import METHODS, scaling_for

FACTOR = 4


def text(length: int) -> torch.Tensor:
    """Tokens [1, length] of a play that the model was not trained on."""
    play = (SHIPPED / "heldout-tempest.txt").read_text(encoding="utf-8")
    return Tokenizer.load(SHIPPED).encode(play)[None, :length]


def write(original: Checkpoint, method: str, folder: Path) -> None:
    """The checkpoint of one method, reloaded and run."""
    native = original.spec.length
    length = FACTOR * native
    folder.mkdir()
    write_checkpoint(original, original.spec.extended(scaling_for(method, float(FACTOR), native), length), folder)
    reloaded, tokens = load(folder), text(length)
    (frequencies,) = read_frequencies(reloaded.model, length)
    with torch.inference_mode():
        computed = {
            "tokens": tokens,
            "logits": logits(reloaded, tokens),
            "inv_freq": frequencies.inv_freq,
            "attention_factor": torch.tensor(frequencies.attention_factor, dtype=torch.float64),
        }
    save_file(
        {name: value.contiguous() for name, value in computed.items()},
        folder / "computed.safetensors",
        metadata={"transformers": transformers.__version__},
    )


def main() -> None:
    """One folder a method, all anew."""
    out = Path(sys.argv[1])
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    original = load(SHIPPED)
    for method in METHODS:
        if writable(scaling_for(method, float(FACTOR), original.spec.length)):
            write(original, method, out / method)
            print(f"{out / method}: transformers {transformers.__version__}")


if __name__ == "__main__":
    main()
