"""Which reader of a checkpoint takes which method."""

from ropewalk.scaling import NTK, DynamicLinear, DynamicNTK, DynamicYaRN, Linear, Llama3, NTKCritical, Scaling, YaRN

READERS = ("transformers 5", "transformers 4.57", "vLLM", "llama.cpp converter (Llama)")


def readers(scaling: Scaling) -> dict[str, str]:
    """What each reader does with `scaling` once written: "yes", or "no: " and the reason."""
    if isinstance(scaling, DynamicNTK | DynamicLinear | DynamicYaRN):
        return dict.fromkeys(READERS, "no: not written; a no-op once the maximum is raised, and wrong with a cache")
    answers = dict.fromkeys(READERS, "yes")
    by_name = isinstance(scaling, NTK | NTKCritical | Linear | Llama3) or (
        isinstance(scaling, YaRN) and scaling.ramp == "code"
    )
    if not by_name:
        answers["llama.cpp converter (Llama)"] = "no: written as longrope factors, which it drops"
    return answers


def writable(scaling: Scaling) -> bool:
    """Whether a checkpoint can state `scaling` at all."""
    return readers(scaling)["transformers 5"] == "yes"
