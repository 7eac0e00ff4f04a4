"""Write an extended checkpoint: the folder appears whole or not at all."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.load import Checkpoint
from ropewalk.checkpoints.loader import quietly
from ropewalk.checkpoints.spec import ModelSpec, position_keys
from ropewalk.checkpoints.tokenizer import Tokenizer

# What travels with the weights. Anything else in the folder (pickles, code, optimizer states) stays behind.
CARRIED = ("*.safetensors", "*.safetensors.index.json", "tokenizer*", "special_tokens_map.json", "vocab*", "merges.txt",
           "added_tokens.json", "chat_template*", "generation_config.json", "LICENSE*", "README*")  # fmt: skip


@contextmanager
def whole_folder(out: Path, within: Path | None = None) -> Iterator[Path]:
    """A folder to fill, renamed to `out` when the block ends well and removed when it does not.

    Args:
        out: where it shall be.
        within: the folder, on the same file system, that holds it until then; left out, the one that holds `out`.

    Raises:
        RopewalkError: `out` exists already, or its parent does not.
    """
    refuse_existing(out)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=within or out.parent))
    try:
        yield unfinished
        unfinished.chmod(0o755)
        refuse_existing(out)
        unfinished.rename(out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def refuse_existing(out: Path) -> None:
    """Nothing is ever written over: `out` must be new, in a folder that exists."""
    if out.exists() or out.is_symlink():
        raise RopewalkError(f"{out}: exists already; give --out a new folder, or remove this one")
    if not out.parent.is_dir():
        raise RopewalkError(f"{out.parent}: no such folder to write {out.name!r} into")


def write_checkpoint(checkpoint: Checkpoint, spec: ModelSpec, folder: Path) -> None:
    """Write the config of `spec` with the weights and tokenizer of `checkpoint` into `folder`.

    Weights of a Hugging Face directory are hard-linked (copied across file systems), bit for bit; those of a
    .gguf are written as the dequantised safetensors they were loaded as.
    """
    if checkpoint.path.is_dir():
        for pattern in CARRIED:
            for file in sorted(checkpoint.path.glob(pattern)):
                link(file, folder / file.name)
        config = spec.to_config()
    else:
        with quietly(checkpoint.path):
            checkpoint.model.save_pretrained(folder)
            Tokenizer.load(checkpoint.path).inner.save_pretrained(folder)
        saved = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        config = {**saved, **position_keys(spec.to_config())}
    write_json(folder / "config.json", config)
    _raise_limits(folder, config["max_position_embeddings"])


def write_json(path: Path, content: object) -> None:
    """JSON, indented, ending in a newline; NaN is refused, since no reader of ours or others' knows it."""
    path.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _raise_limits(folder: Path, length: int) -> None:
    """Tokenizer and generation settings cut at the native length too, where they state it."""
    for name, key in (("tokenizer_config.json", "model_max_length"), ("generation_config.json", "max_length")):
        file = folder / name
        if not file.is_file():
            continue
        content = json.loads(file.read_text(encoding="utf-8"))
        if 1 < content.get(key, length) < length:
            file.unlink()  # it may be a link to the original
            write_json(file, {**content, key: length})


def link(source: Path, target: Path) -> None:
    """The file `source` under another name too; a copy where there can be no link, nothing where it is no file."""
    if not source.is_file():
        return
    try:
        os.link(source.resolve(), target)
    except OSError:  # another file system, or one without hard links
        shutil.copy2(source, target)
