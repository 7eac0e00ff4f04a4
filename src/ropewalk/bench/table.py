"""The result of a benchmark as a Markdown table."""

from typing import Any

HEADER = ("job", "numbers", "over", "ropewalk", "aimed at", "best other")


def markdown(result: dict[str, Any], short: bool = False) -> str:
    """A job a row, with the time over the limit: ours, and the best of the others with its name.

    Args:
        result: the content of a result file.
        short: leave out the interleaved layout and the other order of axes.
    """
    jobs = [job for job in result["jobs"] if not short or (job["layout"] != "interleaved" and job["axes"] == "bhtd")]
    rows = [HEADER, ("---",) * 3 + ("---:",) * 2 + ("---",), *map(_row, jobs)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(job: dict[str, Any]) -> tuple[str, ...]:
    ours = next(way for way in job["ways"] if way["name"] == "ropewalk")
    others = [way for way in job["ways"] if not way["name"].startswith("ropewalk")]
    other = f"{others[0]['ratio']:.2f} ({others[0]['name']})" if others else "–"
    layout = "" if job["layout"] == "-" else f", {job['layout']}, {job['axes']}"
    return (
        job["job"],
        job["dtype"] + layout,
        job["limit"]["what"],
        f"{ours['ratio']:.2f}",
        f"{job['target']:.2f}",
        other,
    )
