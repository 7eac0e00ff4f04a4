"""What a recipe is, and the words that recipes share."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.readers import readers
from ropewalk.checkpoints.spec import ModelSpec, position_keys
from ropewalk.scaling import Scaling

RUN, DOCUMENTED, REFUSED = "run here", "documented", "refused"
ORIGINAL = "ORIGINAL"  # stands for the checkpoint that the extended one was made from


@dataclass(frozen=True)
class Recipe:
    """How one engine is made to read a checkpoint as it is meant.

    Attributes:
        engine: its name, as `--for` takes it.
        status: "run here" (the project's tests run it), "documented" (read from the engine's documentation and
            code, not run), or "refused".
        text: what to run or paste; empty where it is refused.
        source: which version was run, or which documents were read.
        reason: why it is refused; empty otherwise.
    """

    engine: str
    status: str
    text: str
    source: str
    reason: str = ""

    def to_dict(self) -> dict[str, str]:
        """The fields, as JSON has them."""
        return asdict(self)


def refusal(reader: str, spec: ModelSpec) -> str:
    """Why `reader` does not take `spec`, its scaling or its pairing; empty where it does."""
    if reason := mispaired(spec):
        return reason
    if not is_extended(spec):
        return ""
    if not _is_alike(spec):
        return "its layers do not all rotate whole heads alike, and what this engine does with that was not checked"
    return no(reader, spec.scaling)


def mispaired(spec: ModelSpec) -> str:
    """Why no engine takes weights laid out for the other pairing; empty for all others."""
    if not spec.turned:
        return ""
    return (
        f"its weights are laid out for {spec.turned} pairs, which engines do not turn in a {spec.model_type!r} model; "
        f"lay them out for theirs: ropewalk convert --layout {spec.rule.layout}"
    )


def no(reader: str, scaling: Scaling | None) -> str:
    """The reason of a "no: " in the table of readers; empty for any other answer, and for no scaling at all."""
    answer = readers(scaling)[reader] if scaling is not None else ""
    return answer.removeprefix("no: ") if answer.startswith("no: ") else ""


def is_extended(spec: ModelSpec) -> bool:
    """Whether anything but the trained encoding stands in the config."""
    return spec.is_extended or any(layer.scaling is not None for layer in spec.layers)


def can_be_restated(spec: ModelSpec) -> bool:
    """Whether the un-extended checkpoint can be told the same."""
    return is_extended(spec) and _is_alike(spec)


def overrides(spec: ModelSpec) -> dict[str, Any]:
    """The position keys, in both spellings, that make the un-extended checkpoint into `spec`."""
    assert spec.max_length is not None
    return position_keys(spec.extended(spec.scaling, spec.max_length).to_config())


def to_json(content: object) -> str:
    """JSON in a line, for a flag."""
    return json.dumps(content, allow_nan=False)


def _is_alike(spec: ModelSpec) -> bool:
    try:
        spec.uniform()
    except RopewalkError:
        return False
    return spec.main.softmax_factor == 1  # latent attention has its temperature elsewhere
