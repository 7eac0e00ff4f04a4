"""Peak memory of attention with a bias or a relation, forward and backward, at lengths where T x S would not fit.

Each measurement has a process of its own; its peak is the largest resident size less what is resident once q, k
and v are made. With every logit at once, eight heads at 32,768 tokens would take 34 GB a copy.

    python benchmarks/attention_memory.py [--out benchmarks/results/attention-memory.json]
"""

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

HEADS, WIDTH, LENGTHS = 8, 64, (8192, 32768)
NAMES = ("T5Bias", "Shaw", "ALiBi", "Rotary")


def peak_mb() -> float:
    """The largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(name: str, length: int) -> dict:
    """One forward and one backward pass, causal, float32."""
    import torch

    import ropewalk as rw

    torch.manual_seed(0)
    encoding = {
        "T5Bias": lambda: rw.T5Bias(HEADS),
        "Shaw": lambda: rw.Shaw(WIDTH, max_distance=64),
        "ALiBi": lambda: rw.ALiBi(HEADS),
        "Rotary": lambda: rw.Rotary(WIDTH),
    }[name]()
    q, k, v = (torch.randn(1, HEADS, length, WIDTH, requires_grad=True) for _ in range(3))
    plan = rw.attend(q, k, v, causal=True, encoding=encoding, explain=True)
    before, start = peak_mb(), time.perf_counter()
    out = rw.attend(q, k, v, causal=True, encoding=encoding)
    forward = time.perf_counter() - start
    out.sum().backward()
    return {
        "encoding": name,
        "tokens": length,
        "backend": plan.backend,
        "queries_at_once": plan.rows,
        "peak_mb": round(peak_mb() - before),
        "forward_s": round(forward, 1),
        "forward_and_backward_s": round(time.perf_counter() - start, 1),
    }


def main() -> None:
    """Measure each in a process of its own and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/attention-memory.json"))
    parser.add_argument("--one", nargs=2, metavar=("ENCODING", "TOKENS"), help="measure in this process, print JSON")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one[0], int(given.one[1]))))
        return
    import torch

    rows = []
    for name in NAMES:
        for length in LENGTHS:
            command = [sys.executable, __file__, "--one", name, str(length)]
            rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
            print(rows[-1], flush=True)
    machine = {"torch": torch.__version__, "threads": torch.get_num_threads(), "processor": platform.processor()}
    result = {"schema_version": 1, "heads": HEADS, "width": WIDTH, "dtype": "float32", **machine, "rows": rows}
    given.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
