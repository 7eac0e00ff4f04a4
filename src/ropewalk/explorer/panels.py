"""Every panel, in the order of the page."""

from collections.abc import Mapping

from ropewalk.checkpoints.spec import ModelSpec
from ropewalk.explorer import alibi, comparison, grid, rotation, score, shuffle, spectrum, t5, waves
from ropewalk.explorer.panel import Panel


def panels(models: Mapping[str, ModelSpec] | None = None) -> Mapping[str, Panel]:
    """The panels by name; `models` stand first among those whose spectrum can be seen."""
    every = (
        *(grid.PANEL, waves.PANEL, rotation.PANEL, spectrum.panel(models), score.PANEL),
        *(alibi.PANEL, t5.PANEL, comparison.PANEL, shuffle.PANEL),
    )
    return {panel.name: panel for panel in every}
