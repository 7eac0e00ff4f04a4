"""transformers 5 and 4: the two that the project's tests run."""

from typing import Any

from ropewalk.checkpoints.recipes.recipe import (
    ORIGINAL,
    REFUSED,
    RUN,
    Recipe,
    can_be_restated,
    mispaired,
    no,
    overrides,
    refusal,
)
from ropewalk.checkpoints.spec import ModelSpec

SOURCE_5 = "transformers 5.23.0, on the model that ships (`make test`)"
SOURCE_4 = "transformers 4.57.6, on the model that ships (`make test-4.57`)"
UNREAD = "unread-by-transformers-4"


def transformers_5(spec: ModelSpec, name: str) -> Recipe:
    """Load it as it is, or hand the same keys to the checkpoint that it was made from."""
    if reason := _dropped(spec, name) or mispaired(spec) or no("transformers 5", spec.scaling):
        return Recipe("transformers", REFUSED, "", SOURCE_5, reason)
    text = _load(name)
    if can_be_restated(spec):
        keys = overrides(spec)
        text += _override({key: keys[key] for key in ("max_position_embeddings", "rope_parameters")})
    return Recipe("transformers", RUN, text, SOURCE_5)


def transformers_4(spec: ModelSpec, name: str) -> Recipe:
    """The same in the older spelling; refused where the config has the newer one alone."""
    if reason := _dropped(spec, name) or refusal("transformers 4.57", spec) or _unread(spec, name):
        return Recipe("transformers-4", REFUSED, "", SOURCE_4, reason)
    text = _load(name)
    if can_be_restated(spec):
        keys = overrides(spec)
        text += _override({key: value for key, value in keys.items() if key != "rope_parameters"})
    return Recipe("transformers-4", RUN, text, SOURCE_4)


def _dropped(spec: ModelSpec, name: str) -> str:
    if not name.endswith(".gguf") or spec.scaling is None:
        return ""
    return "it drops the scaling of a GGUF; give the checkpoint that it was converted from"


def _unread(spec: ModelSpec, name: str) -> str:
    """A GGUF has no spelling of its own: each transformers reads it into the one it has."""
    lost = [finding.message for finding in spec.findings if finding.code == UNREAD]
    return "" if name.endswith(".gguf") else "; ".join(lost)


def _load(name: str) -> str:
    folder, _, file = name.rpartition("/")
    arguments = f"{folder or '.'!r}, gguf_file={file!r}" if name.endswith(".gguf") else repr(name)
    return (
        f"from transformers import AutoModelForCausalLM\n\nmodel = AutoModelForCausalLM.from_pretrained({arguments})\n"
    )


def _override(keys: dict[str, Any]) -> str:
    lines = [f"config.{key} = {value!r}" for key, value in keys.items()]
    return "\n".join(
        [
            "\n# or, without the written checkpoint, from the one that it was made from:",
            "from transformers import AutoConfig, AutoModelForCausalLM\n",
            f"config = AutoConfig.from_pretrained({ORIGINAL!r})",
            *lines,
            f"model = AutoModelForCausalLM.from_pretrained({ORIGINAL!r}, config=config)\n",
        ]
    )
