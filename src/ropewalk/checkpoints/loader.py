"""transformers' own loader, made safe and silent: offline, no remote code, no pickle, errors that name the file."""

import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

from ropewalk._errors import RopewalkError


def transformers() -> Any:
    """The package, or an error that says which extra brings it."""
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise RopewalkError("loading a model needs the extra: pip install 'ropewalk[hf]'") from error
    return transformers


def where(path: Path) -> tuple[Path, dict[str, Any]]:
    """The folder to load from, and the arguments that every `from_pretrained` of ours gets."""
    safe: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    return (path.parent, {**safe, "gguf_file": path.name}) if path.suffix == ".gguf" else (path, safe)


@contextmanager
def quietly(path: Path, what: str = "it") -> Iterator[None]:
    """Without transformers' progress bars and advice, and with whatever it raises turned into a RopewalkError.

    Some of its bars ask no setting before they draw, so stderr is held back as a whole.
    """
    logging = transformers().logging
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with redirect_stderr(io.StringIO()):
            yield
    except MemoryError:
        raise
    except Exception as error:  # its readers raise whatever the format's library does
        raise RopewalkError(f"{path}: transformers cannot use {what}: {type(error).__name__}: {error}") from error
    finally:
        logging.set_verbosity(level)
