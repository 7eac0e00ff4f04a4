"""Every panel, in the order of the page."""

from collections.abc import Mapping

from ropewalk.explorer import grid, rotation
from ropewalk.explorer.panel import Panel


def panels() -> Mapping[str, Panel]:
    """The panels by name."""
    every = (grid.PANEL, rotation.PANEL)
    return {panel.name: panel for panel in every}
