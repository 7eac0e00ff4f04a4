"""comparison.html: made from comparison.json and the literature, with its pictures inside and nothing fetched."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

from ropewalk.plots.comparison import comparison, scaling_comparison
from ropewalk.report.comparison_table import TITLE, tables, verdict
from ropewalk.report.svg import inline_svg


def render(result: dict[str, Any], literature: Mapping[str, Any]) -> str:
    """The page, as text; names and texts are escaped.

    Args:
        result: the content of comparison.json.
        literature: what is published on each encoding, by name; one that is missing is shown without.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files("ropewalk.report").joinpath("comparison.html").read_text(encoding="utf-8"))
    return template.render(
        title=TITLE,
        result=result,
        verdict=verdict(result),
        tables=tables(result, literature),
        encodings=inline_svg(comparison(result)),
        scalings=inline_svg(scaling_comparison(result)) if result["scalings"] else None,
    )
