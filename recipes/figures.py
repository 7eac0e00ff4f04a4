"""Draw the pictures of README and docs from the landed results. `make figures` runs it."""

import json
from pathlib import Path

from ropewalk import plots, positions
from ropewalk.functional import sinusoidal
from ropewalk.report.html import frequencies

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Leave docs/*.png."""
    report = json.loads((ROOT / "benchmarks/results/extend-shipped-1024.json").read_text())
    drawn = {
        "curves": plots.curves(report),
        "spectrum": plots.spectrum(frequencies(report), report["native_length"], report["target_length"]),
        "grid": plots.grid(sinusoidal(positions.arange(20), 32).numpy()),
    }
    for name, figure in drawn.items():
        figure.savefig(ROOT / f"docs/{name}.png", dpi=110)


if __name__ == "__main__":
    main()
