"""Keys that a rotation has turned already, as caches hold them: turned on to where they have to be."""

import torch
from torch import Tensor

from ropewalk._errors import RopewalkError
from ropewalk.functional.rotary import check_positions
from ropewalk.kernels.rotate import Tables
from ropewalk.modules.encoding import Encoding
from ropewalk.scaling import Scaled, Scaling


class CachedKeys(Encoding):
    """What a rotary encoding does with rotated keys: move them, or put them under another scaling.

    A rotation is undone by its opposite, so that what is between two rotations is one rotation, by the difference of
    their angles. That difference is computed in float64; features that do not turn stay as they are.
    """

    base: float
    scaling: Scaling | None
    _unscaled: Tensor  # [P]
    _coordinates: tuple[int, ...] = ()  # of a position

    def shift(self, k: Tensor, by: int | Tensor, *, length: int | Tensor | None = None) -> Tensor:
        """Rotated keys, moved on by `by` positions: what rotating them there would have given.

        k' = R(by) k, without an attention factor: k has it already.

        Each call rounds once, and a small turn of a slow pair is rounded away: in bfloat16 a thousand calls by -1
        leave an error of half the keys' norm, one call by -1000 of 0.2 %. Keep the keys as they were written, and shift
        those by the total; or, since distances alone count, move the few sinks forward and leave the many recent keys
        where they are.

        Args:
            k: [B, K, S, D], rotated by this encoding.
            by: an integer, or integers [S], [B, S], or [B, 1] for one a row; below 0 is back. Where a position has
                A coordinates, an integer moves all of them, and a tensor is [A, S], [A, B, S], [A, 1] or [A, B, 1].
            length: at which they were rotated, for length-dependent scalings; see `rescale`.

        Returns:
            Like k; shifted by 0, equal to it.

        Raises:
            RopewalkError: a `by` that is no integer or does not fit the keys, a length that is needed and left out.

        Example:
            >>> from ropewalk import Rotary
            >>> rope, k = Rotary(64), torch.randn(1, 2, 10, 64)
            >>> _, rotated = rope(k, k)
            >>> closed = rope.shift(rotated[:, :, 4:], by=-4)  # four tokens are forgotten, the others close ranks
            >>> fresh, _ = rope(k[:, :, 4:], k[:, :, 4:])
            >>> torch.allclose(closed, fresh, atol=1e-5)
            True

        Source: transformers' former SinkCache and llama.cpp's `build_rope_shift`. Both shift again what was shifted,
        and the first rounds its tables to the dtype of the keys.
        """
        by = torch.as_tensor(by, device=k.device)
        check_positions(by)
        by = by.expand(*self._coordinates, 1) if by.dim() == 0 else by
        cos, sin = self._between(by, k, Scaled(self._rotated_with("shift", k, None, length).inv_freq, 1.0))
        if cos.shape[-2] == 1:
            cos, sin = (table.expand(*table.shape[:-2], k.shape[-2], -1) for table in (cos, sin))
        return self._turned_on(k, (cos, sin))

    def rescale(
        self,
        k: Tensor,
        positions: Tensor,
        *,
        old: Scaling | None = None,
        new: Scaling | None = None,
        old_length: int | Tensor | None = None,
        new_length: int | Tensor | None = None,
    ) -> Tensor:
        """Rotated keys, put from one scaling under another: what rotating them under the new one would have given.

        k' = (new factor / old factor) R(position x (new inv_freq - old inv_freq)) k.

        Args:
            k: [B, K, S, D], rotated at `positions`.
            positions: theirs, as `tables` takes them.
            old, new: scalings; None is this encoding's own. `Linear(1.0)` is none at all.
            old_length, new_length: for length-dependent scalings, tokens of the whole sequence at which the keys were
                rotated, and at which they shall be: an integer, [B, 1] for one a row, [1, S] or [B, S] where every
                key was rotated at the length of its day, as engines with a cache of rotated keys do it.

        Returns:
            Like k; put under the same scaling at the same length, equal to it.

        Raises:
            RopewalkError: something that is no scaling, a length that is needed and left out, shapes that do not fit.

        Example:
            >>> from ropewalk import DynamicNTK, Rotary
            >>> rope, k = Rotary(64, scaling=DynamicNTK(factor=1.0, original_length=8)), torch.randn(1, 2, 10, 64)
            >>> where = torch.arange(10)
            >>> _, at_10 = rope(k, k, where)
            >>> at_20 = rope.rescale(at_10, where, old_length=10, new_length=20)  # ten more tokens are expected
            >>> torch.allclose(at_20, rope(k, k, where, length=20)[1], atol=1e-5)
            True

        Source: the difference of two rotations, Su et al. 2021 (arXiv 2104.09864), equation 16. The paper of YaRN
        (arXiv 2309.00071, section 3.3) asks for caches of un-rotated keys instead, as `models.Cache` is one.
        """
        check_positions(positions)
        one = self._rotated_with("rescale", k, old, old_length, "old_length")
        other = self._rotated_with("rescale", k, new, new_length, "new_length")
        change = Scaled(other.inv_freq - one.inv_freq, other.attention_factor / one.attention_factor)
        return self._turned_on(k, self._between(positions, k, change))

    def _rotated_with(
        self, owner: str, k: Tensor, scaling: Scaling | None, length: int | Tensor | None, name: str = "length"
    ) -> Scaled:
        """Frequencies in float64, [P], or [..., S or 1, P] where lengths differ."""
        owner, scaling = f"{type(self).__name__}.{owner}", self.scaling if scaling is None else scaling
        if scaling is None:
            return Scaled(self._unscaled.double(), 1.0)
        if not isinstance(scaling, Scaling):
            raise RopewalkError(f"{owner}: {scaling!r} is no scaling; give an object such as YaRN(factor=4.0, ...)")
        if scaling.depends_on_length and length is None:
            raise RopewalkError(
                f"{owner}: the frequencies of {type(scaling).__name__} depend on the length; give {name}, the tokens "
                "of the whole sequence"
            )
        if isinstance(length, Tensor) and (length.dim() == 1 or length.shape[-1:] not in ((), (1,), (k.shape[-2],))):
            raise RopewalkError(
                f"{owner}: {name} of shape {list(length.shape)} for {k.shape[-2]} keys; give an integer, [batch, 1] "
                "for one a row, or [1, keys] or [batch, keys]"
            )
        scaled = scaling.apply(self._unscaled, base=self.base, length=length)
        return Scaled(scaled.inv_freq.double(), scaled.attention_factor)

    def _between(self, positions: Tensor, k: Tensor, scaled: Scaled) -> Tables:
        """Tables [..., S or 1, P], the frequencies of each key its own where they differ."""
        positions = positions.to(k.device)
        if scaled.inv_freq.dim() == 1:
            return self._tables(positions, scaled)
        cos, sin = self._tables(positions[..., None], scaled)
        return cos[..., 0, :], sin[..., 0, :]

    def _turned_on(self, k: Tensor, tables: Tables) -> Tensor:
        return self._turn(k[:, :0], k, tables, tables)[1]

    def _tables(self, positions: Tensor, scaled: Scaled) -> Tables:
        """cos, sin of positions x frequencies, in the direction of this encoding."""
        raise NotImplementedError

    def _turn(self, q: Tensor, k: Tensor, q_tables: Tables, k_tables: Tables) -> tuple[Tensor, Tensor]:
        """q and k with their pairs turned."""
        raise NotImplementedError
