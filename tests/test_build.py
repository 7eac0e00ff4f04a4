"""What an install makes: a kernel where there is a compiler, and a package that works where there is none."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="the build backend is not installed")
ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src/ropewalk/kernels/csrc"


@pytest.fixture
def build(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    import hatch_build

    return hatch_build


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")
def test_a_compiler_makes_the_kernel_without_torch(build, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert build.compile_kernel(SOURCES, tmp_path / "_cpu.so") is None
    assert (tmp_path / "_cpu.so").stat().st_size < 1_000_000
    code = f"import ctypes; ctypes.CDLL({str(tmp_path / '_cpu.so')!r})"
    alone = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "libtorch_cpu" in alone.stderr  # it is torch that brings what the kernel calls


def test_without_a_compiler_the_reason_is_said(build, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "no-such-compiler" in build.compile_kernel(SOURCES, tmp_path / "_cpu.so")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")
def test_a_compiler_that_fails_leaves_nothing(build, tmp_path):
    broken = tmp_path / "csrc"
    broken.mkdir()
    (broken / "broken.cpp").write_text("this is no C++\n")
    assert "failed" in build.compile_kernel(broken, tmp_path / "_cpu.so")
    assert not (tmp_path / "_cpu.so").exists()
