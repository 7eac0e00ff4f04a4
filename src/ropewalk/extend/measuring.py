"""Measure a loaded model under every method of a plan, on the same tokens."""

import functools
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from ropewalk.checkpoints.kernel_patch import patch
from ropewalk.checkpoints.load import Checkpoint, load
from ropewalk.checkpoints.patch import scaled
from ropewalk.checkpoints.tokenizer import Tokenizer
from ropewalk.extend.passes import Passes
from ropewalk.extend.plan import Plan
from ropewalk.extend.progress import Cost, expected
from ropewalk.extend.remapping import Method, Remapping, stated
from ropewalk.measure.curves import Curve, crop_curve, full_curve, per_length_curve
from ropewalk.measure.documents import Documents
from ropewalk.measure.haystack import Encode
from ropewalk.measure.losses import LanguageModel
from ropewalk.measure.reading import Reading, measure_reading, reads_to
from ropewalk.measure.retrieval import Retrieval, finds_to, measure_retrieval, texts
from ropewalk.measure.verdict import Verdict, judge


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


def prepare(plan: Plan) -> tuple[Documents, Checkpoint]:
    """What is to be measured, stretches or passages, and the model: the text is checked before the weights are read."""
    tokenizer = Tokenizer.load(plan.model)
    texts = [(path.name, tokenizer.encode(path.read_text(encoding="utf-8", errors="replace"))) for path in plan.texts]
    limit = plan.probed if plan.quick else plan.documents
    return Documents.cut(texts, plan.target, limit), load(plan.model, dtype=plan.dtype, device=plan.device)


def measure(plan: Plan, documents: Documents, checkpoint: Checkpoint, passes: Passes | None = None) -> Measurement:
    """The curves and readings of crop, none and every method of `plan`."""
    passes = passes or Passes()
    cost = Cost.of(plan.spec.config)
    passes.expect(cost, expected(plan, len(documents), cost))
    bench = Bench(plan, documents, checkpoint, passes)
    bench.check()
    with passes.of_method("crop"):
        crop, crop_context = bench.crop()
    unscaled = bench.measured("none", None)
    none = unscaled[0]

    def measured(name: str, curve: Curve, readings: list[Reading], retrievals: list[Retrieval]) -> Measured:
        verdict = judge(curve, crop, none, plan.native, tolerance=plan.tolerance)
        return Measured(name, curve, verdict, tuple(readings), tuple(retrievals))

    within = [reading for reading in unscaled[1] if reading.context <= plan.native]
    finds = finds_to([cell for cell in unscaled[2] if cell.length <= plan.native]) > 0
    results = [measured("crop", crop, [], []), measured("none", *unscaled)]
    results += [measured(name, *bench.measured(name, method, retrieves=finds)) for name, method in plan.methods.items()]
    return Measurement(tuple(results), documents, crop_context, reads_to(within) > 0, finds)


@dataclass(frozen=True)
class Bench:
    """One model and one text, on which each method is measured. A method of None is the model as it is."""

    plan: Plan
    documents: Documents
    checkpoint: Checkpoint
    passes: Passes

    @property
    def model(self) -> LanguageModel:
        """The model, whose passes go through `passes`."""
        return LanguageModel(self.checkpoint.hidden, self.checkpoint.head, self.passes)

    def check(self) -> None:
        """That the model takes every method, before any of them is measured."""
        for method in self.plan.methods.values():
            with self.at_length(method, self.plan.target):
                pass

    def crop(self) -> tuple[Curve, float]:
        """The curve of the last native-length context, and the mean of that context."""
        self.passes.over("document", len(self.documents))
        return crop_curve(self.model, self.documents.tokens, self.plan.edges, self.plan.native)

    def measured(
        self, name: str, method: Method | None, *, retrieves: bool = True
    ) -> tuple[Curve, list[Reading], list[Retrieval]]:
        """All of one method; no pass keys where the unscaled model finds none, since they would say nothing."""
        with self.passes.of_method(name):
            return self.curve(method), self.read(method), self.retrieve(method) if retrieves else []

    def curve(self, method: Method | None) -> Curve:
        """One pass a document, or one a bucket end where the length decides about the frequencies."""
        tokens, edges = self.documents.tokens, self.plan.edges
        self.passes.over("document", len(tokens))
        if self.plan.depends_on_length(method):
            return per_length_curve(self.model, tokens, edges, functools.partial(self.at_length, method))
        with self.at_length(method, self.plan.target):
            return full_curve(self.model, tokens, edges)

    def read(self, method: Method | None) -> list[Reading]:
        """Readings at growing distances, up to and with the first that fails past the native length."""
        plan, readings = self.plan, list[Reading]()
        for context in plan.contexts:
            self.passes.over("sequence", plan.trials, f"copies at {context:,}, ")
            with self.at_length(method, context if plan.depends_on_length(method) else plan.target):
                readings.append(measure_reading(self.model, self.documents.tokens, context, trials=plan.trials))
            if context > plan.native and reads_to(readings) != readings[-1].distance:
                break
        return readings

    def retrieve(self, method: Method | None) -> list[Retrieval]:
        """Pass keys at growing lengths, up to and with the first one, from the native length on, that fails."""
        plan, cells = self.plan, list[Retrieval]()
        for length in plan.haystacks:
            self.passes.over(f"pass keys at {length:,}:", texts(plan.needles))
            with self.at_length(method, length if plan.depends_on_length(method) else plan.target):
                cells += measure_retrieval(
                    self.model, self._encode, self.documents.tokens, length, needles=plan.needles
                )
            if length >= plan.native and finds_to(cells) != length:
                break
        return cells

    @functools.cached_property
    def _encode(self) -> Encode:
        return Tokenizer.load(self.plan.model).encode

    @contextmanager
    def at_length(self, method: Method | None, length: int) -> Iterator[None]:
        """The model is under `method`, with its frequencies for a sequence of `length` tokens."""
        with self.changed(method, length), self.noted(method, length):
            yield

    def changed(self, method: Method | None, length: int) -> AbstractContextManager[object]:
        """In which the model is; what passes is not known by it."""
        if method is None:
            return nullcontext()
        rope = self.plan.rotary(method, numerics="float32")
        if isinstance(method, Remapping):
            return patch(self.checkpoint.model, encoding=method.encoding(rope))
        return scaled(self.checkpoint.model, rope.frequencies(length))

    def noted(self, method: Method | None, length: int) -> AbstractContextManager[None]:
        """In which what passes is known by `method`; the model is as it was."""
        if method is None:
            return nullcontext()
        frequencies = self.plan.rotary(method, numerics="float32").frequencies(length)
        return self.passes.under(frequencies, str(stated(method)) if isinstance(method, Remapping) else "")
