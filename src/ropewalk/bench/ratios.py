"""From seconds to ratios."""

import statistics
from collections.abc import Mapping
from typing import Any


def against(
    errors: Mapping[str, float | None], seconds: Mapping[str, list[float]], limit: str, what: str
) -> dict[str, Any]:
    """Each way's ratio to the limit, fastest first; `errors` names the ways."""
    ways = [{"name": name, **_ratio(seconds[name], seconds[limit]), "largest_error": errors[name]} for name in errors]
    return {
        "limit": {"what": what, "seconds": statistics.median(seconds[limit])},
        "ways": sorted(ways, key=lambda way: way["ratio"]),
    }


def _ratio(seconds: list[float], limit: list[float]) -> dict[str, float]:
    """The ratio of medians, and the quartiles of the ratios round by round."""
    each = statistics.quantiles([mine / theirs for mine, theirs in zip(seconds, limit, strict=True)], n=4)
    ratio = statistics.median(seconds) / statistics.median(limit)
    return {"ratio": round(ratio, 3), "low": round(each[0], 3), "high": round(each[2], 3)}
