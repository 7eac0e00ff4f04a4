"""The tokenizer of a checkpoint, for plain text."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from ropewalk.checkpoints.loader import quietly, transformers, where


@dataclass(frozen=True)
class Tokenizer:
    """A transformers tokenizer."""

    inner: Any

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """The tokenizer in a Hugging Face directory or a .gguf file."""
        folder, safe = where(path)
        with quietly(path):
            return cls(transformers().AutoTokenizer.from_pretrained(folder, **safe))

    def encode(self, text: str) -> Tensor:
        """Token ids [T] of `text`, without special tokens."""
        return self.inner(text, add_special_tokens=False, return_tensors="pt", verbose=False).input_ids[0]
