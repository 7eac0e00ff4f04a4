"""The temperature apart from the frequencies."""

from dataclasses import dataclass

from torch import Tensor

from ropewalk._checks import number
from ropewalk._errors import RopewalkError
from ropewalk.scaling._base import Scaled, Scaling


@dataclass(frozen=True)
class Tempered:
    """The frequencies of one method with an attention factor of one's own choice.

    How pairs are slowed and how much attention is sharpened are two choices, and a method's name settles both.

    Args:
        scaling: gives the frequencies.
        attention_factor: what multiplies cos and sin, in place of the method's own.

    Example:
        >>> import torch
        >>> from ropewalk.scaling import Linear
        >>> Tempered(Linear(4.0), 1.1).apply(torch.tensor([1.0]), base=100.0)
        Scaled(inv_freq=tensor([0.2500]), attention_factor=1.1)
    """

    scaling: Scaling
    attention_factor: float

    def __post_init__(self) -> None:
        if not isinstance(self.scaling, Scaling):
            raise RopewalkError(f"Tempered: scaling={self.scaling!r} is no scaling; give an object such as Linear(4.0)")
        number("Tempered", "attention_factor", self.attention_factor, least=0, above=True)

    @property
    def depends_on_length(self) -> bool:
        """Whether the frequencies change with the length of the sequence."""
        return self.scaling.depends_on_length

    def apply(self, inv_freq: Tensor, *, base: float, length: int | Tensor | None = None) -> Scaled:
        return Scaled(self.scaling.apply(inv_freq, base=base, length=length).inv_freq, self.attention_factor)
