"""What two runs must agree in."""

import json
from pathlib import Path
from typing import Any


def result(out: Path) -> dict[str, Any]:
    """report.json without what the clock and the machine decide."""
    report = json.loads((out / "report.json").read_text())
    assert report.pop("seconds") > 0
    assert report["versions"].pop("date")
    assert report["versions"].pop("machine")  # with its threads, which other tests in this process may have set
    assert report["memory"].pop("peak_bytes") > 0
    return report
