"""Measure a loaded model under every method of a plan, on the same tokens."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from ropewalk.checkpoints.load import Checkpoint, load
from ropewalk.checkpoints.patch import scaled
from ropewalk.checkpoints.tokenizer import Tokenizer
from ropewalk.extend.plan import Plan
from ropewalk.measure.curves import Curve, crop_curve, full_curve, per_length_curve
from ropewalk.measure.documents import Documents
from ropewalk.measure.haystack import Encode
from ropewalk.measure.losses import LanguageModel
from ropewalk.measure.reading import Reading, measure_reading, reads_to
from ropewalk.measure.retrieval import Retrieval, finds_to, measure_retrieval
from ropewalk.measure.verdict import Verdict, judge
from ropewalk.scaling import Scaling


@dataclass(frozen=True)
class Measured:
    """All that was seen of one method."""

    method: str
    curve: Curve
    verdict: Verdict
    readings: tuple[Reading, ...]
    retrievals: tuple[Retrieval, ...] = ()


@dataclass(frozen=True)
class Measurement:
    """All methods of one plan, on the same documents.

    Attributes:
        crop_context: mean context of the tokens that crop scored past the native length.
        native_reads: whether the model as it is reads within its native length; if not, reading says nothing.
        native_finds: likewise, whether it finds pass keys.
    """

    methods: tuple[Measured, ...]
    documents: Documents
    crop_context: float
    native_reads: bool
    native_finds: bool = False


# Told of progress: the method at hand, and tokens passed through the model since the last call.
Progress = Callable[[str, int], None]


def prepare(plan: Plan) -> tuple[Documents, Checkpoint]:
    """The stretches to be measured, and the model: the text is checked before the weights are read."""
    tokenizer = Tokenizer.load(plan.model)
    texts = [(path.name, tokenizer.encode(path.read_text(encoding="utf-8", errors="replace"))) for path in plan.texts]
    return Documents.cut(texts, plan.target, plan.documents), load(plan.model)


def measure(
    plan: Plan, documents: Documents, checkpoint: Checkpoint, progress: Progress = lambda method, tokens: None
) -> Measurement:
    """The curves and readings of crop, none and every method of `plan`."""
    bench = _Bench(plan, documents, checkpoint, progress)
    crop, crop_context = bench.crop()
    none = bench.curve("none", None)

    def measured(name: str, curve: Curve, readings: list[Reading], retrievals: list[Retrieval]) -> Measured:
        verdict = judge(curve, crop, none, plan.native, tolerance=plan.tolerance)
        return Measured(name, curve, verdict, tuple(readings), tuple(retrievals))

    retrievals = bench.retrieve("none", None)
    native_finds = finds_to([cell for cell in retrievals if cell.length <= plan.native]) > 0
    results = [measured("crop", crop, [], []), measured("none", none, bench.read("none", None), retrievals)]
    for name, scaling in plan.scalings.items():
        cells = bench.retrieve(name, scaling) if native_finds else []  # or they would say nothing
        results.append(measured(name, bench.curve(name, scaling), bench.read(name, scaling), cells))
    within = [reading for reading in results[1].readings if reading.context <= plan.native]
    return Measurement(tuple(results), documents, crop_context, reads_to(within) > 0, native_finds)


@dataclass(frozen=True)
class _Bench:
    """One model and one text, on which each method is measured. A scaling of None is the model as it is."""

    plan: Plan
    documents: Documents
    checkpoint: Checkpoint
    progress: Progress

    @property
    def model(self) -> LanguageModel:
        return LanguageModel(self.checkpoint.hidden, self.checkpoint.head)

    def crop(self) -> tuple[Curve, float]:
        tick = functools.partial(self.progress, "crop")
        return crop_curve(self.model, self.documents.tokens, self.plan.edges, self.plan.native, tick)

    def curve(self, name: str, scaling: Scaling | None) -> Curve:
        tick, tokens, edges = functools.partial(self.progress, name), self.documents.tokens, self.plan.edges
        if self._depends_on_length(scaling):
            return per_length_curve(self.model, tokens, edges, functools.partial(self.at_length, scaling), tick)
        with self.at_length(scaling, self.plan.target):
            return full_curve(self.model, tokens, edges, tick)

    def read(self, name: str, scaling: Scaling | None) -> list[Reading]:
        """Readings at growing distances, up to and with the first that fails past the native length."""
        tick, plan = functools.partial(self.progress, name), self.plan
        readings: list[Reading] = []
        for context in plan.contexts:
            with self.at_length(scaling, context if self._depends_on_length(scaling) else plan.target):
                readings.append(
                    measure_reading(self.model, self.documents.tokens, context, trials=plan.trials, tick=tick)
                )
            if context > plan.native and reads_to(readings) != readings[-1].distance:
                break
        return readings

    def retrieve(self, name: str, scaling: Scaling | None) -> list[Retrieval]:
        """Pass keys at growing lengths, up to and with the first one, from the native length on, that fails."""
        tick, plan = functools.partial(self.progress, name), self.plan
        cells: list[Retrieval] = []
        for length in plan.haystacks:
            with self.at_length(scaling, length if self._depends_on_length(scaling) else plan.target):
                cells += measure_retrieval(
                    self.model, self._encode, self.documents.tokens, length, needles=plan.needles, tick=tick
                )
            if length >= plan.native and finds_to(cells) != length:
                break
        return cells

    @functools.cached_property
    def _encode(self) -> Encode:
        return Tokenizer.load(self.plan.model).encode

    def at_length(self, scaling: Scaling | None, length: int) -> AbstractContextManager[None]:
        """The context in which the model has the frequencies of `scaling` for a sequence of `length` tokens."""
        if scaling is None:
            return nullcontext()
        layer = self.plan.spec.extended(scaling, self.plan.target).layers[0]
        return scaled(self.checkpoint.model, layer.rotary(numerics="float32").frequencies(length))

    def _depends_on_length(self, scaling: Scaling | None) -> bool:
        acting = scaling or self.plan.spec.scaling
        return acting is not None and acting.depends_on_length
