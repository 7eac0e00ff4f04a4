"""The compiled rotation on the CPU: finding it, and what torch has to know of it to trace it."""

import os
from pathlib import Path

import torch
from torch import Tensor

LIBRARY = Path(__file__).parent / "_cpu.so"
SWITCH = "ROPEWALK_KERNELS"  # "off" leaves everything to torch's own operators
REBUILD = "install ropewalk anew where a C++ compiler is (g++ or clang++), with pip install --no-deps --force-reinstall"


def _loaded() -> str | None:
    """Register the operators; why it cannot be done, where it cannot."""
    if os.environ.get(SWITCH) == "off":
        return f"{SWITCH}=off is set"
    if not LIBRARY.is_file():
        return f"it was not built; {REBUILD}"
    if _there():  # another copy of ropewalk in this process has loaded its own
        return None
    try:
        torch.ops.load_library(str(LIBRARY))
    except (OSError, RuntimeError) as error:
        return f"it cannot be loaded ({error}); {REBUILD}"
    if not _there():
        return f"this torch, {torch.__version__}, did not take its operators; {REBUILD}"
    torch.library.register_fake("ropewalk::rotate", _fake_rotate)
    torch.library.register_fake("ropewalk::rotate_out", lambda *arguments: None)
    torch.library.register_fake("ropewalk::tables", _fake_tables)
    return None


def _there() -> bool:
    return all(hasattr(torch.ops.ropewalk, name) for name in ("rotate", "rotate_out", "tables"))


def _fake_rotate(q: Tensor, k: Tensor, *rest: object) -> tuple[Tensor, Tensor]:
    return torch.empty_like(q), torch.empty_like(k)


def _fake_tables(positions: Tensor, inv_freq: Tensor, factor: float) -> tuple[Tensor, Tensor]:
    shape = *positions.shape, *inv_freq.shape
    return positions.new_empty(shape, dtype=torch.float32), positions.new_empty(shape, dtype=torch.float32)


missing = _loaded()
"""Why the kernel does not serve here; None where it does."""
