"""Run the kernels' tests on a build that watches every memory access. `make test-kernels` runs it.

It stands in for the installed kernel while it runs, and leaves that as it was.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
KERNELS = ROOT / "src/ropewalk/kernels"
WATCH = ("-fsanitize=address", "-fno-omit-frame-pointer", "-g", "-O2")


def main() -> int:
    """The exit status of the tests."""
    sys.path.insert(0, str(ROOT))
    import hatch_build

    library, kept = KERNELS / "_cpu.so", KERNELS / "_cpu.so.kept"
    library.rename(kept)
    try:
        hatch_build.FLAGS = (*(flag for flag in hatch_build.FLAGS if flag != "-O3"), *WATCH)
        reason = hatch_build.compile_kernel(KERNELS / "csrc", library)
        if reason is not None:
            sys.exit(f"the kernel could not be built: {reason}")
        runtime = [_found("libasan.so"), _found("libstdc++.so.6")]  # the second, or what is thrown is not caught
        # Python and torch leave memory behind at their end; what counts is what the kernel touches
        environment = {"LD_PRELOAD": " ".join(runtime), "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"}
        tests = [sys.executable, "-m", "pytest", "-q", "tests/kernels"]
        return subprocess.run(tests, cwd=ROOT, env=os.environ | environment, check=False).returncode
    finally:
        kept.replace(library)


def _found(library: str) -> str:
    """Where the compiler has it."""
    told = subprocess.run(["g++", f"-print-file-name={library}"], capture_output=True, text=True, check=True)
    return told.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
