"""Files that are whole or not there, and folders with one process at work."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ropewalk._errors import RopewalkError


def replace_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, whatever stops the process or the machine."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def replace_text(path: Path, text: str) -> None:
    """The same for text, in UTF-8."""
    replace_bytes(path, text.encode("utf-8"))


@contextmanager
def alone(folder: Path, work: str) -> Iterator[None]:
    """Hold `folder` for this process: two that work in one folder would do everything twice.

    The lock is the operating system's, so that it ends with the process, killed or not.

    Raises:
        RopewalkError: another process holds it; `work` says at what.
    """
    from filelock import FileLock, Timeout

    try:
        with FileLock(folder / ".lock", timeout=0):
            yield
    except Timeout:
        raise RopewalkError(f"{work} is at work there; wait for it, or give another folder") from None
