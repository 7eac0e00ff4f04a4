"""Compile the CPU kernel into the package, where there is a compiler; torch itself is not needed for it.

Without one the package installs all the same, serves by torch's own operators, and `ropewalk verify` says so.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNELS = Path("src/ropewalk/kernels")
# Products and sums are not fused: the kernel gives the bits that torch's own operators give. g++ 12 fuses some in spite
# of -ffp-contract=off (vfmaddsub) unless its vectoriser of straight code is off.
EXACT = ("-ffp-contract=off", "-fno-tree-slp-vectorize")
FLAGS = ("-std=c++17", "-O3", "-fPIC", "-shared", *EXACT, "-fvisibility=hidden", "-Wall", "-Wextra")


class KernelHook(BuildHookInterface):
    """Adds `_cpu.so` to a wheel, and leaves it in the source tree for an editable install."""

    def initialize(self, version: str, build_data: dict) -> None:
        """Called before the files of a wheel are gathered."""
        made = Path(self.root) / KERNELS / "_cpu.so"
        made.unlink(missing_ok=True)
        reason = compile_kernel(Path(self.root) / KERNELS / "csrc", made)
        if reason is not None:
            self.app.display_warning(
                f"ropewalk: the CPU kernel was not built ({reason}); torch's operators serve instead"
            )
            return
        build_data["artifacts"].append(str(KERNELS / "_cpu.so"))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform()}"


def compile_kernel(sources: Path, made: Path) -> str | None:
    """`made` from `sources`; why not, where it cannot be."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if not compiler or not shutil.which(compiler.split()[0]):
        return f"no C++ compiler: {compiler or 'neither g++ nor clang++ was found'}"
    with tempfile.TemporaryDirectory() as folder:
        unfinished = Path(folder) / "_cpu.so"
        command = [*compiler.split(), *FLAGS, *map(str, sorted(sources.glob("*.cpp"))), "-o", str(unfinished)]
        try:
            subprocess.run([*command, *_link(compiler, Path(folder))], check=True, capture_output=True, text=True)
        except subprocess.CalledProcessError as error:
            return f"{error.cmd[0]} failed: {error.stderr.strip()[-500:]}"
        shutil.copyfile(unfinished, made)
    return None


def _link(compiler: str, folder: Path) -> list[str]:
    """The name of torch's library, so that the one which Python has loaded is found; an empty one stands in for it."""
    if sys.platform == "darwin":
        return ["-undefined", "dynamic_lookup"]
    stand_in, empty = folder / "libtorch_cpu.so", folder / "empty.cpp"
    empty.write_text("")
    name = ["-shared", "-fPIC", "-Wl,-soname,libtorch_cpu.so", "-o", str(stand_in)]
    subprocess.run([*compiler.split(), *name, str(empty)], check=True, capture_output=True, text=True)
    return ["-Wl,--no-as-needed", str(stand_in)]


def _platform() -> str:
    """The tag of wheels built here, "linux_x86_64" or "macosx_11_0_arm64"."""
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")
