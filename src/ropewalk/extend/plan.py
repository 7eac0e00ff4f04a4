"""What will be done, settled from the config alone: before any weight is read, nothing can be lost."""

from dataclasses import dataclass, field
from pathlib import Path

import torch

from ropewalk._checks import number, whole
from ropewalk._errors import RopewalkError
from ropewalk.checkpoints.config import from_config
from ropewalk.checkpoints.spec import ModelSpec
from ropewalk.extend.methods import BASELINES, method_for
from ropewalk.extend.placing import device_for, dtype_for, numbers
from ropewalk.extend.remapping import Method, Remapping
from ropewalk.measure.curves import bucket_edges
from ropewalk.measure.reading import contexts
from ropewalk.measure.retrieval import DEPTHS, lengths
from ropewalk.measure.verdict import TOLERANCE
from ropewalk.modules.rotary import Rotary
from ropewalk.scaling import Scaled, Scaling

PROBE_SHORT = 1536  # tokens of a short text that a probe reads
PROBE_TOKENS, PROBE_ENDS = 32_768, 8192  # tokens of all texts that a probe reads, and of all their ends


@dataclass(frozen=True)
class Plan:
    """A measurement of one model to one length.

    Attributes:
        methods: what each name means, in the order in which they are measured.
        documents: how many stretches of text are measured at most.
        trials: sequences of planted strings a distance; 0 leaves reading out.
        needles: pass keys hidden in one text; 0 leaves retrieval out.
        quick: whether the probe stands in for full passes.
        dtype: of the weights in memory; of a quantised model, of all that is not quantised.
        device: where the model computes, as torch names it.
    """

    model: Path
    texts: tuple[Path, ...]
    spec: ModelSpec
    target: int
    methods: dict[str, Method]
    documents: int = 48
    trials: int = 12
    tolerance: float = TOLERANCE
    needles: int = 0
    quick: bool = False
    dtype: torch.dtype = torch.float32
    device: str = "cpu"
    edges: tuple[int, ...] = field(init=False)
    contexts: tuple[int, ...] = field(init=False)
    haystacks: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", bucket_edges(self.native, self.target))
        object.__setattr__(self, "contexts", tuple(contexts(self.native, self.target)) if self.trials else ())
        object.__setattr__(self, "haystacks", tuple(lengths(self.native, self.target)) if self.needles else ())

    @property
    def native(self) -> int:
        """Tokens that the model was trained to read."""
        return self.spec.length

    @property
    def probe_short(self) -> int:
        """Tokens of short text that the probe reads at the beginning of each stretch, within the native length."""
        return min(PROBE_SHORT, self.native)

    @property
    def probe_end(self) -> int:
        """Tokens at the end of each stretch that the probe reads on: at most a quarter, and 8192 of all together."""
        return max(1, min(self.target // 4, PROBE_ENDS // self.probed))

    @property
    def probe_window(self) -> int:
        """Tokens of the windows in which the probe reads what stands before them: two are half the native length."""
        return max(1, self.native // 4)

    @property
    def probed(self) -> int:
        """Stretches that the probe reads: as many as make 32,768 tokens, at least one and at most `documents`."""
        return max(1, min(self.documents, PROBE_TOKENS // self.target))

    @property
    def weights_dtype(self) -> str:
        """The numbers of the weights in memory, in words."""
        return numbers(self.dtype, self.spec.config)

    def depends_on_length(self, method: Method | None) -> bool:
        """Whether a sequence's length decides about its frequencies; None is the model as it is."""
        acting = method or self.spec.scaling
        return acting is not None and acting.depends_on_length

    def scaling(self, method: str) -> Scaling:
        """That of a method which a checkpoint can state."""
        found = self.methods[method]
        assert isinstance(found, Scaling)  # or it would not be `writable`
        return found

    def rotary(self, method: Method, *, numerics: str = "float64") -> Rotary:
        """The rotation of every layer under `method`, at its own positions."""
        scaling = method.scaling if isinstance(method, Remapping) else method
        return self.spec.extended(scaling, self.target).layers[0].rotary(numerics=numerics)

    def at_target(self, method: Method) -> Scaled:
        """The frequencies of `method` for a sequence of the target length, float64."""
        return self.rotary(method).frequencies(self.target)


def plan(
    model: Path,
    texts: tuple[Path, ...],
    target: int,
    methods: tuple[str, ...],
    *,
    documents: int = 48,
    trials: int = 12,
    tolerance: float = TOLERANCE,
    needles: int = 0,
    temperature: str | None = None,
    quick: bool = False,
    dtype: str = "auto",
    device: str = "auto",
) -> Plan:
    """Check everything that can be checked without the weights.

    Args:
        dtype: "float32", "bfloat16", "float16", or "auto": float32 on the CPU, elsewhere as the weights are stored.
        device: "cpu", "cuda", "cuda:N", "mps", or "auto": CUDA where there is any, else the CPU.

    Raises:
        RopewalkError: no rotary model, a target not longer than native, an unknown method, a missing text,
            a model that carries a scaling already, a temperature that a method cannot take, a device that is not there.
    """
    spec = from_config(model).uniform()
    native = spec.length
    if target <= native:
        raise RopewalkError(f"{model}: it reads {native} tokens natively; {target} is not longer; give a larger length")
    named = _named(model, spec, native, target, methods, temperature)
    if not texts:
        raise RopewalkError("no text to measure on; give --text FILE, documents longer than the target length")
    for text in texts:
        if not text.is_file():
            raise RopewalkError(f"{text}: no such text file")
        if text.stat().st_size < target - 1:  # no token is shorter than a byte, but for one at the beginning
            raise RopewalkError(f"{text}: {text.stat().st_size} bytes, shorter than the {target} tokens to be measured")
    number("extend", "tolerance", tolerance, least=0, above=True)
    number("extend", "documents", documents, least=1)
    number("extend", "trials", trials, least=0)
    if whole("extend", "needles", needles, least=0) > DEPTHS:
        raise RopewalkError(f"extend: needles={needles}; give 0 to {DEPTHS} pass keys a text")
    device = device_for(device)
    weights = dtype_for(dtype, model, spec.config, device)
    return Plan(model, texts, spec, target, named, documents, trials, tolerance, needles, quick, weights, device)


def _named(
    model: Path, spec: ModelSpec, native: int, target: int, methods: tuple[str, ...], temperature: str | None
) -> dict[str, Method]:
    named = dict.fromkeys(name for name in methods if name not in BASELINES)
    if named and spec.turned:
        raise RopewalkError(
            f"{model}: its weights are laid out for {spec.turned} pairs, which no engine turns in this model type; "
            f"first ropewalk convert {model} --layout {spec.rule.layout}, and extend that"
        )
    if named and spec.is_extended:
        raise RopewalkError(
            f"{model}: it is extended already, from {spec.native_length} to {spec.max_length} tokens "
            f"({spec.scaling or 'by a larger base'}); measure it as it is, and extend the checkpoint it was made from: "
            "two scalings on top of each other are not what either was meant for"
        )
    return {name: method_for(name, target / native, native, temperature) for name in named}
