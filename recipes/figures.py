"""Draw the pictures and fill the speed tables of README and docs from the landed results. `make figures` runs it."""

import json
import re
from pathlib import Path

from ropewalk import plots, positions
from ropewalk.bench.table import markdown
from ropewalk.explorer.comparison import kept
from ropewalk.functional import sinusoidal
from ropewalk.report.html import frequencies
from ropewalk.report.svg import svg

ROOT = Path(__file__).parents[1]
TABLE = re.compile(r"(?P<comment><!-- (?P<short>short, )?made from (?P<path>\S+) -->)\n(?:\n?\|.*)*\n")


def main() -> None:
    """Leave the pictures of docs/, the speed tables, and what the explorer shows of the comparison."""
    report = json.loads((ROOT / "benchmarks/results/extend-shipped-1024.json").read_text())
    drawn = {
        "curves": plots.curves(report),
        "spectrum": plots.spectrum(frequencies(report), report["native_length"], report["target_length"]),
        "grid": plots.grid(sinusoidal(positions.arange(20), 32).numpy()),
    }
    for name, figure in drawn.items():
        figure.savefig(ROOT / f"docs/{name}.png", dpi=110)
    result = json.loads((ROOT / "benchmarks/results/speed-cpu.json").read_text())
    (ROOT / "docs/speed.svg").write_text(svg(plots.speed(result)))
    compared = json.loads((ROOT / "benchmarks/results/comparison-plays.json").read_text())
    (ROOT / "src/ropewalk/explorer/comparison.json").write_text(
        json.dumps(kept(compared), separators=(",", ":")) + "\n"
    )
    for page in ("README.md", "docs/speed.md"):
        path = ROOT / page
        path.write_text(TABLE.sub(_filled, path.read_text()))


def _filled(found: re.Match[str]) -> str:
    """The comment that names a result, and the table made from it."""
    result = json.loads((ROOT / found["path"]).read_text())
    return f"{found['comment']}\n\n{markdown(result, short=found['short'] is not None)}\n"


if __name__ == "__main__":
    main()
