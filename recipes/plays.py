"""Shakespeare's works but for the plays that are held out, as one file: the text of `make compare`."""

import sys
from pathlib import Path

from shipped_text import fetch, split

if __name__ == "__main__":
    out = Path(sys.argv[1])
    works, _ = split(fetch(out.parent / "text"))
    out.write_bytes(works)
