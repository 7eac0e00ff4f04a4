"""The command line, as the tests of the commands call it."""

import runpy
from pathlib import Path

ropewalk = runpy.run_path(str(Path(__file__).parents[1] / "cli/conftest.py"))["ropewalk"]
