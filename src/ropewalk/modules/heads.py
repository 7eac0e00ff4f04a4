"""An encoding for some of a model's heads, where devices share the heads."""

import torch
from torch import Tensor

from ropewalk._checks import whole
from ropewalk._errors import RopewalkError
from ropewalk.modules.encoding import DistanceBias, Encoding, check_encoding


def for_heads(encoding: Encoding, start: int, stop: int, *, of: int) -> Encoding:
    """What heads start .. stop - 1 of a model's `of` heads get of an encoding.

    ALiBi's slopes, a learned table's columns and all else that differs by head depend on which heads these are and on
    how many there are in all. The encoding answers for all of them, and the answer is cut; what serves all heads alike
    (a rotation, positions at the input, Shaw's vectors) is returned as it is.

    Args:
        encoding: any, built for `of` heads.
        start, stop: a slice of the heads.
        of: heads of the whole model.

    Returns:
        An encoding for `stop - start` heads, that every backend runs as it runs the whole one. It holds the whole one,
        whose parameters get the gradients of these heads: sum them over the devices.

    Raises:
        RopewalkError: a slice that is none of the heads; later, an encoding that answers for another number of heads.

    Example:
        >>> from ropewalk import ALiBi
        >>> for_heads(ALiBi(8), 2, 4, of=8).bias(torch.tensor([4]), torch.tensor([0])).flatten().tolist()
        [-0.5, -0.25]

    Source: tensor parallelism over heads (Shoeybi et al. 2019, Megatron-LM, arXiv 1909.08053, section 3).
    """
    check_encoding("for_heads", encoding)
    of, start, stop = (
        whole("for_heads", name, n, least=0) for name, n in (("of", of), ("start", start), ("stop", stop))
    )
    if not start < stop <= of:
        raise RopewalkError(f"for_heads: heads {start} to {stop} of {of}; give 0 <= start < stop <= of")
    if "bias" not in encoding.doors and ("relation" not in encoding.doors or encoding.heads_alike):
        return encoding
    by_distance = isinstance(encoding, DistanceBias) and type(encoding).bias is DistanceBias.bias
    return (_HeadsByDistance if by_distance and "relation" not in encoding.doors else _Heads)(encoding, start, stop, of)


class _Heads(Encoding):
    """Asks the whole encoding and cuts its answers."""

    def __init__(self, encoding: Encoding, start: int, stop: int, of: int) -> None:
        super().__init__()
        self.all_heads, self.start, self.stop, self.of = encoding, start, stop, of

    @property
    def doors(self) -> tuple[str, ...]:
        return self.all_heads.doors

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return self.all_heads.embed(x, positions)

    def rotate(
        self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor, length: int | Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        return self.all_heads.rotate(q, k, q_positions, k_positions, length)

    def bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor | None:
        bias = self.all_heads.bias(q_positions, k_positions)
        return None if bias is None else self._cut(bias, -3)

    def potential(self, positions: Tensor) -> Tensor | None:
        potential = self.all_heads.potential(positions)
        return None if potential is None else self._cut(potential, -2)

    def relation(
        self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor, visible: Tensor | None = None
    ) -> Tensor | None:
        """The others' queries and keys are zeros, which costs what all heads cost."""
        whole_q, whole_k = self._among_all(q), self._among_all(k)
        relation = self.all_heads.relation(whole_q, whole_k, q_positions, k_positions, visible)
        return None if relation is None else self._cut(relation, -3)

    def relation_values(self, weights: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor | None:
        values = self.all_heads.relation_values(self._among_all(weights), q_positions, k_positions)
        return None if values is None else self._cut(values, -3)

    def _cut(self, answer: Tensor, axis: int) -> Tensor:
        heads = answer.shape[axis]
        if heads not in (1, self.of):
            raise RopewalkError(
                f"for_heads: {type(self.all_heads).__name__} answers for {heads} heads, and of={self.of} was given"
            )
        return answer if heads == 1 < self.of else answer.narrow(axis, self.start, self.stop - self.start)

    def _among_all(self, x: Tensor) -> Tensor:
        """x [B, stop - start, ...] in its place among all heads."""
        before, after = (x.new_zeros(x.shape[0], n, *x.shape[2:]) for n in (self.start, self.of - self.stop))
        return torch.cat((before, x, after), dim=1)

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        return f"heads {self.start} to {self.stop} of {self.of}"


class _HeadsByDistance(_Heads, DistanceBias):
    """The same of a bias by distance, which stays one."""

    bias = DistanceBias.bias

    def by_distance(self, relative: Tensor) -> Tensor:
        assert isinstance(self.all_heads, DistanceBias)  # `for_heads` has looked
        return self._cut(self.all_heads.by_distance(relative), -3)
