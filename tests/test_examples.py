"""Each example runs as it stands, and says what it should."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SAYS = {
    "llama_past_its_length.py": (
        "ropewalk: with a cache as without: True",
        "and as transformers without one: True",
        "with ALiBi: 48 tokens of 32 native",
    ),
    "multihead_attention.py": (
        "without positions, the largest difference is below 1e-6: True",
        "Rotary: 20 tokens, changed: True",
        "ALiBi: 20 tokens, changed: True",
        "T5Bias: 20 tokens, changed: True",
    ),
    "nanogpt.py": ("Learned: stops at 32", "Rotary: reads 64 tokens", "ALiBi: reads 64 tokens"),
}


def test_all_of_them_are_here_and_short():
    found = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert set(found) == set(SAYS)
    assert max(found.values()) <= 60


@pytest.mark.parametrize("name", SAYS)
def test_it_runs(name):
    result = subprocess.run([sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    for line in SAYS[name]:
        assert line in result.stdout
