"""The arrows of imports, the size of files, and what importing the package costs."""

import ast
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src/ropewalk"
FILES = sorted(SOURCE.rglob("*.py"))
# What each room may import from; a room always may import from itself and from the leaves.
LEAVES = {"_checks", "_errors", "_files"}
ARROWS = {
    "functional": set(),
    "positions": set(),
    "scaling": set(),
    "kernels": {"functional"},
    "bench": {"functional", "modules", "kernels", "attention", "testing"},
    "modules": {"functional", "positions", "scaling", "kernels"},
    "attention": {"functional", "positions", "modules"},
    "checkpoints": {"functional", "positions", "scaling", "modules", "kernels", "attention"},
    "models": {"positions", "modules", "attention", "checkpoints"},
    "measure": set(),
    "plots": set(),
    "report": {"plots"},
    "extend": {"scaling", "modules", "checkpoints", "measure", "report", "__init__"},
    "compare": {
        *("functional", "scaling", "modules", "attention", "models", "measure", "extend", "plots", "report"),
    },
    "explorer": {
        *("functional", "positions", "scaling", "modules", "attention", "checkpoints", "compare", "extend"),
        *("plots", "report"),
    },
    "testing": set(),
    "verify": {
        "functional",
        "kernels",
        "positions",
        "scaling",
        "modules",
        "attention",
        "checkpoints",
        "models",
        "testing",
    },
    "cli": {
        "functional",
        "positions",
        "scaling",
        "checkpoints",
        "measure",
        "kernels",
        "extend",
        "compare",
        "bench",
        "plots",
        "report",
        "verify",
        "explorer",
        "__init__",
    },
    "__main__": {"cli"},
    "__init__": {"functional", "positions", "scaling", "modules", "attention", "models", "checkpoints"},
}


def room(path: Path) -> str:
    parts = path.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else path.stem


def imports(path: Path) -> set[str]:
    """The modules of ropewalk that a file imports, wherever in it the statement stands."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            own = node.module == "ropewalk"
            names = [f"ropewalk.{alias.name}" for alias in node.names] if own else [node.module]
        found |= {name for name in names if name.split(".")[0] == "ropewalk"}
    return found


def target_room(module: str) -> str:
    """The room of "ropewalk.scaling.ntk" is scaling; a name that `ropewalk` itself offers is of its __init__."""
    first = (*module.split(".")[1:], "__init__")[0]
    return first if (SOURCE / first).is_dir() or (SOURCE / f"{first}.py").is_file() else "__init__"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_run_one_way(path):
    here = room(path)
    if here in LEAVES:
        assert all(target_room(module) in LEAVES for module in imports(path))
        return
    strays = {module for module in imports(path) if target_room(module) not in ARROWS[here] | LEAVES | {here}}
    assert not strays, f"{here} may import from {sorted(ARROWS[here])}"


def test_every_room_has_its_arrows():
    assert {room(path) for path in FILES} == set(ARROWS) | LEAVES


def test_files_are_small():
    lines = {path: len(path.read_text().splitlines()) for path in FILES}
    assert max(lines.values()) <= 400
    assert statistics.median(lines.values()) <= 150


@pytest.mark.parametrize("module", ["ropewalk", "ropewalk.testing", "ropewalk.measure", "ropewalk.verify"])
def test_a_cold_import_brings_torch_and_nothing_heavier(module):
    code = f"import {module}, sys; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert "torch" in loaded
    assert not loaded & {
        "torch._dynamo",
        "transformers",
        "matplotlib",
        "safetensors",
        "tokenizers",
        "typer",
        "rich",
        "jinja2",
        "plotly",
        "dash",
        "gguf",
    }


def test_what_reads_checkpoints_waits_until_it_is_asked_for():
    """Half of what the import would cost; every name is there all the same, from the first."""
    code = """
import sys
import ropewalk
assert not [name for name in sys.modules if name.startswith(("ropewalk.checkpoints", "ropewalk.models"))]
assert {"from_config", "patch", "models", "checkpoints", "Rotary"} <= set(dir(ropewalk))
from ropewalk import from_config, models, patch
from ropewalk.checkpoints import config, kernel_patch
assert (from_config, patch, models.Decoder) == (config.from_config, kernel_patch.patch, ropewalk.models.Decoder)
assert ropewalk.checkpoints is sys.modules["ropewalk.checkpoints"]
assert not hasattr(ropewalk, "nothing_of_the_kind")
"""
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_the_core_needs_torch_alone():
    """Everything that `import ropewalk` runs works where only torch is installed."""
    code = """
import sys
heavy = "numpy transformers matplotlib safetensors tokenizers typer rich jinja2 plotly gguf"
for name in heavy.split():
    sys.modules[name] = None  # as if it were not installed
import torch, ropewalk as rw
rope = rw.Rotary(64, scaling=rw.YaRN(factor=4.0, original_length=2048))
q, k = rope(torch.ones(1, 1, 4, 64), torch.ones(1, 1, 4, 64))
print(q.shape)
"""
    result = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
