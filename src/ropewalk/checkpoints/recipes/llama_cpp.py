"""llama.cpp: what its converter writes into a GGUF, and the flags that say the same to a GGUF without it."""

from shlex import quote
from typing import Any

from ropewalk.checkpoints.readers import yarn_flags
from ropewalk.checkpoints.recipes.recipe import DOCUMENTED, REFUSED, Recipe, is_extended, overrides, refusal
from ropewalk.checkpoints.spec import ModelSpec
from ropewalk.scaling import Linear, Llama3, YaRN

READER = "llama.cpp converter (Llama)"
SOURCE = (
    "llama.cpp's converter (conversion/base.py and conversion/llama.py at 0274f0f), its loader (src/llama-model.cpp, "
    "src/models/llama.cpp at 069be0a), src/llama-context.cpp and pull request 17945, read in December 2026; the keys "
    "are written and read back with gguf-py"
)
# The types that the converter's LlamaModel takes; other classes of it do not all treat the keys alike.
ARCHITECTURES = {"llama": "llama", "mistral": "llama", "mixtral": "llama"}
GUESSED = 8192  # what the converter takes where no top-level original length stands


def llama_cpp(spec: ModelSpec, name: str) -> Recipe:
    """Convert and serve, with the flags for what the loader does not take from the file."""
    if name.endswith(".gguf"):
        return Recipe("llama.cpp", DOCUMENTED, _serve(quote(name), spec), SOURCE)
    if reason := refusal(READER, spec) or _unread(spec):
        return Recipe("llama.cpp", REFUSED, "", SOURCE, reason)
    text = f"python convert_hf_to_gguf.py {quote(name)} --outfile extended.gguf\n" + _serve("extended.gguf", spec)
    if is_extended(spec):
        keys = "\n".join(f"#   {key} = {_shown(value)}" for key, value in gguf_keys(spec).items())
        tensor = "\n#   and the tensor rope_freqs.weight" if isinstance(spec.scaling, Llama3) else ""
        text += f"# the converter writes:\n{keys}{tensor}\n"
        if flags := _flags(spec):
            text += (
                f"# or, from a GGUF of the checkpoint that it was made from:\n{_serve('original.gguf', spec, flags)}"
            )
    return Recipe("llama.cpp", DOCUMENTED, text, SOURCE)


def gguf_keys(spec: ModelSpec) -> dict[str, Any]:
    """The metadata about position that the converter makes of the config that `spec` is written as."""
    config, prefix = overrides(spec), ARCHITECTURES[spec.model_type]
    rope = config["rope_parameters"]
    keys = {"context_length": config["max_position_embeddings"], "rope.freq_base": rope["rope_theta"]}
    if rope["rope_type"] in ("linear", "yarn"):
        keys |= {"rope.scaling.type": rope["rope_type"], "rope.scaling.factor": rope["factor"]}
    if rope["rope_type"] == "yarn":
        keys["rope.scaling.original_context_length"] = rope["original_max_position_embeddings"]
        keys["rope.scaling.yarn_attn_factor"] = rope["attention_factor"]
        keys |= {f"rope.scaling.yarn_{name}": rope[name] for name in ("beta_fast", "beta_slow")}
    return {f"{prefix}.{key}": value for key, value in keys.items()}


def _unread(spec: ModelSpec) -> str:
    if not is_extended(spec):
        return ""
    if spec.model_type not in ARCHITECTURES:
        return f"its converter's rules were read for {', '.join(ARCHITECTURES)} alone, not for {spec.model_type!r}"
    stated = spec.config.get("original_max_position_embeddings", GUESSED)
    if isinstance(spec.scaling, Llama3) and stated != spec.scaling.original_length:
        return (
            f"its converter reads original_max_position_embeddings at the top level, and takes {stated} here where the "
            f"scaling says {spec.scaling.original_length}"
        )
    return ""


def _serve(file: str, spec: ModelSpec, flags: str = "") -> str:
    """Betas stand among the flags always, since the loader of this architecture does not read them from the file."""
    betas = yarn_flags(spec.scaling) if isinstance(spec.scaling, YaRN) else ""
    length = f"-c {spec.max_length}" if spec.max_length is not None else ""
    return " ".join(filter(None, ("llama-server -m", file, length, flags, betas))) + "\n"


def _flags(spec: ModelSpec) -> str:
    match spec.scaling:
        case None:
            return f"--rope-freq-base {spec.main.base!r}"
        case Linear(factor):
            return f"--rope-scaling linear --rope-scale {factor:.9g}"
        case YaRN(factor, original):
            return f"--rope-scaling yarn --rope-scale {factor:.9g} --yarn-orig-ctx {original}"
        case _:  # Llama 3's bands stand in a tensor, which no flag makes
            return ""


def _shown(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)
