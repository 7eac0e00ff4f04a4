"""How far a measurement is, in work rather than in tokens: a token costs more the more there are before it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ropewalk.extend.plan import Plan
from ropewalk.extend.remapping import Method
from ropewalk.measure.retrieval import texts


@dataclass(frozen=True)
class Cost:
    """The work of a pass, in multiplications.

    Attributes:
        token: of one token, whatever stands before it.
        pair: of one token and one before it, in all layers.
    """

    token: float
    pair: float

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Cost":
        """From the keys of a Llama-like config; what it does not state has the value that is usual."""
        layers, width, heads = (config[key] for key in ("num_hidden_layers", "hidden_size", "num_attention_heads"))
        queries = heads * (config.get("head_dim") or width // heads)
        keys = queries * (config.get("num_key_value_heads") or heads) // heads
        inner = config.get("intermediate_size") or 4 * width
        layer = width * (2 * queries + 2 * keys + 3 * inner)
        return cls(layers * layer + width * config.get("vocab_size", 0), 2 * layers * queries)

    def of_pass(self, rows: int, length: int, pairs: int | None = None) -> float:
        """Of `rows` sequences of `length` tokens, which see so many in all; left out, each sees those before it."""
        seen = rows * length * (length + 1) / 2 if pairs is None else pairs
        return self.token * rows * length + self.pair * seen


def expected(plan: Plan, documents: int, cost: Cost) -> dict[str, float]:
    """The work of each method if every distance is read; a method whose reading ends sooner takes less."""
    windows = 1 + -(-(plan.target - plan.native) // plan.edges[1])
    reading = sum(cost.of_pass(plan.trials, context) for context in plan.contexts)
    reading += sum(cost.of_pass(texts(plan.needles), length) for length in plan.haystacks)

    def work(method: Method | None) -> float:
        ends = plan.edges[1:] if plan.depends_on_length(method) else (plan.target,)
        return sum(cost.of_pass(documents, end) for end in ends) + reading

    methods = {"none": None, **plan.methods}
    return {"crop": windows * cost.of_pass(documents, plan.native), **{name: work(m) for name, m in methods.items()}}


@dataclass(frozen=True)
class Step:
    """Where a measurement stands, as a pass begins or has ended.

    Attributes:
        method: the one at hand.
        part: which rows of what, in words, such as "document 2 of 5".
        share: of all the work, 0 to 1.
        tokens_per_second: of the last pass that was computed; None before the first.
        seconds_left: at the speed of this run so far; None before its first pass.
    """

    method: str
    part: str
    share: float
    tokens_per_second: float | None
    seconds_left: float | None


Progress = Callable[[Step], None]


@dataclass
class Meter:
    """Adds up the work that is left and the speed of this run, in which passes taken over do not count."""

    left: dict[str, float]
    total: float = field(init=False)
    work: float = 0.0
    seconds: float = 0.0
    tokens_per_second: float | None = None

    def __post_init__(self) -> None:
        self.total = sum(self.left.values())

    def computed(self, work: float, tokens: int, seconds: float) -> None:
        """A pass was computed in so many seconds."""
        self.work, self.seconds = self.work + work, self.seconds + seconds
        self.tokens_per_second = tokens / max(seconds, 1e-9)

    def passed(self, method: str, work: float) -> None:
        """A pass has ended, computed or taken over."""
        self.left[method] = max(0.0, self.left.get(method, 0.0) - work)

    def step(self, method: str, part: str) -> Step:
        """As it stands now."""
        left = sum(self.left.values())
        share = 1 - left / self.total if self.total else 0.0
        seconds_left = left * self.seconds / self.work if self.work else None
        return Step(method, part, share, self.tokens_per_second, seconds_left)
