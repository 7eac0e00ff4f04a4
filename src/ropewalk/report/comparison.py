"""comparison.html: made from comparison.json and the literature, with its pictures inside and nothing fetched."""

from collections.abc import Mapping
from typing import Any

from ropewalk.plots.comparison import comparison, scaling_comparison
from ropewalk.report.comparison_table import TITLE, tables, verdict
from ropewalk.report.page import filled
from ropewalk.report.svg import inline_svg


def render(result: dict[str, Any], literature: Mapping[str, Any]) -> str:
    """The page, as text; names and texts are escaped.

    Args:
        result: the content of comparison.json.
        literature: what is published on each encoding, by name; one that is missing is shown without.
    """
    return filled(
        "comparison.html",
        title=TITLE,
        result=result,
        verdict=verdict(result),
        tables=tables(result, literature),
        encodings=inline_svg(comparison(result)),
        scalings=inline_svg(scaling_comparison(result)) if result["scalings"] else None,
    )
