"""Figures as SVG."""

import io

from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.figure import Figure


def svg(figure: Figure) -> str:
    """A file of its own; its text stays text, so that it can be searched and read aloud."""
    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "ropewalk"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def inline_svg(figure: Figure) -> Markup:
    """To stand inside a page."""
    text = svg(figure)
    return Markup(text[text.index("<svg") :])
