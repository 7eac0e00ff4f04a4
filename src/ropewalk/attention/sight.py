"""Who sees whom: causal, window, padding and documents, by positions."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ropewalk import positions as _positions
from ropewalk._checks import whole
from ropewalk._errors import RopewalkError
from ropewalk.functional.rotary import check_positions
from ropewalk.positions import check_mask


@dataclass(frozen=True)
class Sight:
    """Positions of T queries and S keys, and the rules by which a query sees a key.

    Attributes:
        q_positions, k_positions: int64 [T] or [B, T], [S] or [B, S].
        trailing: whether the keys stand at 0 .. S-1 and the queries at the last T of these, known without looking.
    """

    q_positions: Tensor
    k_positions: Tensor
    causal: bool
    window: int | None
    key_mask: Tensor | None
    q_documents: Tensor | None
    k_documents: Tensor | None
    trailing: bool

    @property
    def everything(self) -> bool:
        """Whether every query is known to see every key."""
        last = self.trailing and self.q_positions.shape[-1] == 1
        return self._by_position and self.window is None and (last or not self.causal)

    @property
    def triangle(self) -> bool:
        """Whether query i is known to see keys 0 .. i and nothing hides them."""
        square = self.trailing and self.q_positions.shape[-1] == self.k_positions.shape[-1]
        return self._by_position and self.window is None and square and self.causal

    @property
    def by_index(self) -> bool:
        """Whether keys stand at 0 .. S-1, the queries at the last T of these, and only distances hide keys."""
        return self.trailing and self._by_position

    @property
    def staircase(self) -> bool:
        """Whether the queries are known to be the last of the keys, each seeing all up to itself."""
        fits = self.trailing and self.q_positions.shape[-1] <= self.k_positions.shape[-1]
        return self._by_position and self.window is None and self.causal and fits

    @property
    def _by_position(self) -> bool:
        return self.key_mask is None and self.k_documents is None

    def columns(self, rows: slice) -> slice:
        """The keys that a block of queries can see at all."""
        queries, keys = self.q_positions.shape[-1], self.k_positions.shape[-1]
        if not (self.trailing and self.causal):
            return slice(0, keys)
        first = 0 if self.window is None else max(0, keys - queries + rows.start - self.window + 1)
        return slice(first, keys - queries + rows.stop)

    def block(self, rows: slice, columns: slice) -> "Sight":
        """The same rules for some of the queries and keys."""
        return replace(
            self,
            q_positions=self.q_positions[..., rows],
            k_positions=self.k_positions[..., columns],
            key_mask=None if self.key_mask is None else self.key_mask[..., columns],
            q_documents=None if self.q_documents is None else self.q_documents[..., rows],
            k_documents=None if self.k_documents is None else self.k_documents[..., columns],
            trailing=False,
        )

    def copied(self) -> "Sight":
        """The same, whatever is done in place to the tensors that were given."""
        own: dict[str, Any] = {name: value.clone() for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **own)

    def visible(self) -> Tensor | None:
        """Which keys each query sees, bool [1 or B, 1, T, S]; None where every query sees every key."""
        if self.everything:
            return None
        seen = []
        ahead = self.k_positions[..., None, :] - self.q_positions[..., :, None]
        if self.causal:
            seen.append(ahead <= 0)
        if self.window is not None:
            seen.append((-ahead if self.causal else ahead.abs()) < self.window)
        if self.key_mask is not None:
            seen.append(self.key_mask[:, None, :])
        if self.q_documents is not None and self.k_documents is not None:
            seen.append(self.q_documents[..., :, None] == self.k_documents[..., None, :])
        mask = seen[0]
        for another in seen[1:]:
            mask = mask & another
        return mask[None, None] if mask.dim() == 2 else mask[:, None]


def sight(
    q: Tensor,
    k: Tensor,
    *,
    causal: bool,
    q_positions: Tensor | None,
    k_positions: Tensor | None,
    window: int | None,
    key_mask: Tensor | None,
    documents: Tensor | None,
    needed: bool,
) -> Sight:
    """The rules for q [B, H, T, D] and k [B, K, S, D], checked; see `attend` for what may be left out.

    `needed` says whether positions change anything.
    """
    batch, queries, keys = q.shape[0], q.shape[-2], k.shape[-2]
    if window is not None:
        whole("attend", "window", window, least=1)
    if q_positions is not None:
        _check("q_positions", q_positions, batch, queries)
    if k_positions is not None:
        _check("k_positions", k_positions, batch, keys)
    trailing = q_positions is None and k_positions is None
    if trailing and queries > keys and not needed:
        q_positions, k_positions = (_positions.arange(tokens, device=q.device) for tokens in (queries, keys))
    q_positions, k_positions = _places(queries, keys, q_positions, k_positions, q.device)
    if key_mask is not None:
        key_mask = check_mask("attend", key_mask)
        _check("key_mask", key_mask, batch, keys)
    if documents is not None:
        _check("documents", documents, batch, keys)
        if queries > keys:
            raise RopewalkError(
                f"attend: documents number the keys, of which the {queries} queries are the last; {keys} given"
            )
    return Sight(
        q_positions=q_positions,
        k_positions=k_positions,
        causal=causal,
        window=window,
        key_mask=key_mask,
        q_documents=None if documents is None else documents[..., keys - queries :],
        k_documents=documents,
        trailing=trailing,
    )


def _places(
    queries: int, keys: int, q_positions: Tensor | None, k_positions: Tensor | None, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Positions where some were left out: keys count from 0, and the queries are the last of them."""
    if q_positions is not None and k_positions is not None:
        same = q_positions is k_positions
        k_positions = k_positions.long()
        return k_positions if same else q_positions.long(), k_positions
    if queries > keys or (q_positions is not None and queries != keys):
        raise RopewalkError(f"attend: {queries} queries and {keys} keys; give both q_positions and k_positions")
    given = k_positions if q_positions is None else q_positions
    k_positions = _positions.arange(keys, device=device) if given is None else given.long()
    return k_positions if queries == keys else k_positions[..., keys - queries :], k_positions


def _check(name: str, given: Tensor, batch: int, tokens: int) -> None:
    if name != "key_mask":
        check_positions(given)
    if (
        given.dim() not in (1, 2)
        or given.shape[-1] != tokens
        or (given.dim() == 2 and given.shape[0] not in (1, batch))
    ):
        raise RopewalkError(
            f"attend: {name} of shape {tuple(given.shape)} does not fit {tokens} tokens in {batch} rows; "
            "give [tokens] or [batch, tokens]"
        )
