"""The tokenizer of the model that ships: a token is a byte, its id is the byte's value."""

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

SPECIALS = ("<s>", "</s>", "<pad>")
VOCABULARY = 256 + len(SPECIALS)


def byte_tokenizer(max_length: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE with no merges. Nothing is added at the beginning of a text."""
    vocabulary = {symbol: byte for byte, symbol in enumerate(_symbols())}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    bos, eos, pad = SPECIALS
    tokenizer.add_special_tokens([bos, eos, pad])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=bos, eos_token=eos, pad_token=pad, model_max_length=max_length
    )


def save_tokenizer(max_length: int, folder: Path) -> None:
    """Write it under the class name that transformers 4 knows and 5 still reads."""
    byte_tokenizer(max_length).save_pretrained(folder)
    file = folder / "tokenizer_config.json"
    config = {**json.loads(file.read_text()), "tokenizer_class": "PreTrainedTokenizerFast"}
    file.write_text(json.dumps(config, indent=2) + "\n")


def _symbols() -> list[str]:
    """GPT-2's printable stand-in for each byte, in the order of the bytes."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    rest = [byte for byte in range(256) if byte not in printable]
    stand_in = {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(rest)}
    return [stand_in[byte] for byte in range(256)]
