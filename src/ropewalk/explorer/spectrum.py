"""The rotary spectrum of a model: turns of every pair, angles it has seen, and what each scaling does to them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.config import from_config
from ropewalk.checkpoints.load import SHIPPED
from ropewalk.checkpoints.presets import PRESETS
from ropewalk.checkpoints.spec import ModelSpec
from ropewalk.explorer.charts import ACCENT, INK, OTHER, PALE, layout, line
from ropewalk.explorer.panel import Choice, Drawn, Panel, Slider, State, Text
from ropewalk.explorer.words import Words
from ropewalk.extend.methods import METHODS, scaling_for
from ropewalk.report.chart_parts import level
from ropewalk.report.spectrum_charts import EQUAL, SEEN, UNSEEN, share, wavelength

NONE, OWN = "none", "own"  # no scaling; the one that the config states
SHIPS = "ropewalk"  # the model that ships
FIRST = "llama-3-8b"


class Spectrum(NamedTuple):
    """Frequencies before and after a scaling, and the shares of a turn that they reach."""

    native: int
    target: int
    before: list[float]
    after: list[float]
    attention_factor: float
    seen: list[float]
    reached: list[float]
    unseen: list[float]


def numbers(spec: ModelSpec, method: str, factor: int) -> Spectrum:
    """The spectrum of the layer by which a model reads far, before and after `method`.

    Raises:
        RopewalkError: a model that does not rotate, or that states no length.
    """
    if not spec.main.rotates:
        raise RopewalkError(f"{spec.model_type}: no layer of this model rotates, so it has no rotary spectrum")
    if spec.native_length is None:
        raise RopewalkError(f"{spec.model_type}: the config states no length; give max_position_embeddings")
    native, target = spec.native_length, factor * spec.native_length
    scalings = {NONE: None, OWN: spec.main.scaling}
    scaling = scalings[method] if method in scalings else scaling_for(method, float(factor), native)
    before = replace(spec.main, scaling=None).rotary().inv_freq.tolist()
    frequencies, temperature = replace(spec.main, scaling=scaling).rotary().frequencies(target)
    after = frequencies.tolist()
    seen, reached = [share(f, native) for f in before], [share(f, target) for f in after]
    unseen = [b - a if b > a * (1 + EQUAL) else 0.0 for a, b in zip(seen, reached, strict=True)]
    return Spectrum(native, target, before, after, float(temperature), seen, reached, unseen)


def turns(frequencies: list[float], length: int) -> list[float]:
    """Whole and part turns of each pair within a length."""
    return [length / wave if (wave := wavelength(frequency)) else 0.0 for frequency in frequencies]


def read(state: State, given: Mapping[str, ModelSpec]) -> ModelSpec:
    """The model that is asked for: the pasted config, or one by name."""
    if not state["config"].strip():
        return given.get(state["model"]) or from_config(SHIPPED if state["model"] == SHIPS else state["model"])
    try:
        config = json.loads(state["config"])
    except json.JSONDecodeError as error:
        raise RopewalkError(f"the pasted config is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise RopewalkError("the pasted config is no object; paste the whole content of a config.json")
    return from_config(config)


def draw(state: State, words: Words, given: Mapping[str, ModelSpec]) -> Drawn:
    """Turns on a logarithmic axis, the arcs of all pairs, and the clock of one."""
    spec = read(state, given)
    found = numbers(spec, state["method"], int(state["factor"]))
    pair = min(state["pair"], len(found.before) - 1)
    return Drawn(
        {"turns": _turns(found, words), "arcs": _arcs(found, pair, words), "clock": _clock(found, pair, words)},
        {
            "lengths": f"{found.native:,} → {found.target:,}",
            "slow": f"{sum(0 < t < 1 - EQUAL for t in turns(found.before, found.native))} / {len(found.before)}",
            "unseen": f"{sum(part > 0 for part in found.unseen)} / {len(found.before)}",
            "pair_before": f"{turns(found.before, found.native)[pair]:,.4g}",
            "pair_after": f"{turns(found.after, found.target)[pair]:,.4g}",
            "pair_unseen": f"{found.unseen[pair]:.1%}",
            "attention_factor": f"{found.attention_factor:.4f}",
        },
        {"pair": len(found.before) - 1},
    )


def _turns(found: Spectrum, words: Words) -> dict[str, Any]:
    where = list(range(len(found.before)))
    lines = (
        (words("spectrum.native"), turns(found.before, found.native), INK, "solid"),
        (words("spectrum.unscaled"), turns(found.before, found.target), OTHER, "dash"),
        (words("spectrum.scaled"), turns(found.after, found.target), ACCENT, "solid"),
    )
    data = [
        line(name, where, [value or None for value in values], colour, dash) | {"hovertemplate": "%{y:.4g}"}
        for name, values, colour, dash in lines
    ]
    made = layout(words("axis.pair"), words("axis.turns"), legend=True) | {"hovermode": "x"}
    made["yaxis"] |= {"type": "log", "exponentformat": "none", "tickformat": ",.12~g", "dtick": 1}
    level(made, 1, words("spectrum.one_turn"))
    made["annotations"][-1]["y"] = 0  # annotations alone take logarithms
    return {"data": data, "layout": made}


def _arcs(found: Spectrum, pair: int, words: Words) -> dict[str, Any]:
    where = list(range(len(found.seen)))
    within = [reached - new for reached, new in zip(found.reached, found.unseen, strict=True)]
    bars: tuple[tuple[str, list[float], str, float], ...] = (
        (words("spectrum.seen"), found.seen, SEEN, 0.9),
        (words("spectrum.reached"), within, ACCENT, 0.5),
        (words("spectrum.new"), found.unseen, UNSEEN, 0.5),
    )
    data: list[dict[str, Any]] = [
        {"type": "bar", "name": name, "x": where, "y": values, "width": width, "marker": {"color": colour},
         "hovertemplate": "%{y:.1%}"}
        for name, values, colour, width in bars
    ]  # fmt: skip
    data[2]["base"] = within
    data[2]["customdata"] = found.unseen
    data[2]["hovertemplate"] = "%{customdata:.1%}"
    data[2]["marker"]["pattern"] = {"shape": "/", "fgcolor": INK, "bgcolor": UNSEEN, "size": 5, "solidity": 0.3}
    made = layout(words("axis.pair"), words("axis.share"), legend=True, barmode="overlay", bargap=0.1)
    made["yaxis"] |= {"range": [0, 1.05], "tickformat": ".0%"}
    made["shapes"] = [
        {"type": "line", "x0": pair, "x1": pair, "y0": 0, "y1": 1.05, "line": {"color": INK, "dash": "dot"}}
    ]
    return {"data": data, "layout": made}


def _clock(found: Spectrum, pair: int, words: Words) -> dict[str, Any]:
    """The circle of one pair: where it has been in training, and beyond it what the target brings."""
    seen, new = 360 * found.seen[pair], 360 * found.unseen[pair]
    arcs = ((0, seen, SEEN, words("spectrum.seen")), (seen, new, UNSEEN, words("spectrum.new")))
    data = [
        {"type": "barpolar", "r": [1], "theta": [start + wide / 2], "width": [wide], "name": name,
         "marker": {"color": colour}, "hovertemplate": f"{wide:.1f}°"}
        for start, wide, colour, name in arcs
    ]  # fmt: skip
    hand = {"type": "scatterpolar", "mode": "lines", "r": [0, 1], "theta": [0, 360 * found.reached[pair]],
            "name": words("spectrum.hand"), "line": {"color": ACCENT, "width": 3}, "hoverinfo": "skip"}  # fmt: skip
    made = layout("", "", legend=True)
    ring = {"linecolor": PALE, "gridcolor": PALE, "tickfont": {"color": INK}}
    made["polar"] = {
        "bgcolor": "rgba(0,0,0,0)",
        "radialaxis": {"visible": False, "range": [0, 1.05]},
        "angularaxis": {**ring, "direction": "counterclockwise", "dtick": 45},
    }
    return {"data": [*data, hand], "layout": made}


def panel(given: Mapping[str, ModelSpec] | None = None) -> Panel:
    """The panel over the presets that rotate and the models `given` by name, the first of which it opens with."""
    own = dict(given or {})
    rotating = tuple(name for name, preset in PRESETS.items() if preset.config and _turning(name))
    models = tuple(dict.fromkeys((*own, SHIPS, *rotating)))
    first = next(iter(own), FIRST)
    return Panel(
        "spectrum",
        (
            Choice("model", first, models, shared=tuple(dict.fromkeys((first, SHIPS, "llama-2-7b", FIRST)))),
            Choice("method", "yarn", (NONE, OWN, *METHODS), shared=(NONE, "linear", "ntk", "yarn", "llama3", "mrrope")),
            Choice("factor", "4", ("1", "2", "4", "8", "16", "32"), shared=("2", "4", "8")),
            Slider("pair", 50, 0, 255),
            Text("config", lines=4),
        ),
        ("turns", "arcs", "clock"),
        lambda state, words: draw(state, words, own),
    )


def _turning(name: str) -> bool:
    spec = from_config(name)
    return spec.main.rotates and spec.native_length is not None
