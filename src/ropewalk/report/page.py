"""What pages have in common: templates, read with escaping on."""

import json
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def filled(template: str, room: str = "ropewalk.report", **content: Any) -> str:
    """A template of `room`'s folder with `content` in it; whatever it prints is escaped."""
    environment = Environment(
        loader=PackageLoader(room, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(content)


def embedded(content: Any) -> Markup:
    """JSON to stand inside a <script>: nothing in it can end the script or begin a comment."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))  # ASCII alone, so that U+2028 is no line end
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))
