"""Whether a quick report ranks methods as full passes do: python recipes/rank_agreement.py FULL.json QUICK.json.

Full passes rank by the mean loss over all tokens past the native length, the probe by its score. Prints the table of
docs/measuring.md, with Spearman's and Kendall's coefficients.
"""

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np


def past_native(method: dict[str, Any], native: int) -> float:
    """The mean loss of a method over the tokens past the native length, from its buckets."""
    past = [bucket for bucket in method["buckets"] if bucket["start"] >= native]
    return float(np.average([b["nll"] for b in past], weights=[b["tokens"] for b in past]))


def losses(full: dict[str, Any], quick: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Each method that both reports hold: its loss by full passes and by the probe."""
    probed = {row["method"]: row["score"] for row in quick["probe"]["methods"]}
    native = full["native_length"]
    return {
        m["method"]: (past_native(m, native), probed[m["method"]]) for m in full["methods"] if m["method"] in probed
    }


def spearman(pairs: list[tuple[float, float]]) -> float:
    """The correlation of the ranks, 1 where they agree."""
    ranks = np.argsort(np.argsort(np.array(pairs), axis=0), axis=0)
    return float(np.corrcoef(ranks.T)[0, 1])


def kendall(pairs: list[tuple[float, float]]) -> float:
    """Pairs of methods in the same order minus those in the other, of all pairs."""
    signs = [np.sign((a[0] - b[0]) * (a[1] - b[1])) for a, b in itertools.combinations(pairs, 2)]
    return float(np.mean(signs))


def table(full: dict[str, Any], quick: dict[str, Any]) -> str:
    """The agreement, as Markdown."""
    found = losses(full, quick)
    by_full, by_probe = (sorted(found, key=lambda name: found[name][way]) for way in (0, 1))
    rows = [
        f"| {name} | {found[name][0]:.3f} | {found[name][1]:.3f} | {rank} | {by_probe.index(name) + 1} |"
        for rank, name in enumerate(by_full, 1)
    ]
    head = ["| method | full: loss past native | probe: score | rank, full | rank, probe |", "|---|---|---|---|---|"]
    pairs = list(found.values())
    said = f"Spearman's ρ {spearman(pairs):.2f}, Kendall's τ {kendall(pairs):.2f} over {len(pairs)} methods; "
    said += "the same best two." if set(by_full[:2]) == set(by_probe[:2]) else "another best two."
    return "\n".join([*head, *rows, "", said])


if __name__ == "__main__":
    print(table(*(json.loads(Path(path).read_text(encoding="utf-8")) for path in sys.argv[1:3])))
