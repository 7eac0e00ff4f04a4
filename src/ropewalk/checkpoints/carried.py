"""Keys that carry their positions through a model's cache, to an attention that asks an encoding."""

from typing import Any

import torch
from torch import Tensor, nn

from ropewalk._errors import RopewalkError
from ropewalk.attention import attend
from ropewalk.attention.sight import sight
from ropewalk.modules.encoding import Encoding
from ropewalk.positions import arange

DIGITS = 4  # of a position, in base 256: what bfloat16 holds, so that no cast on the way changes it
ELSEWHERE = ("position_bias", "cache", "cu_seq_lens_q")  # what other attention functions read, and this one does not


def carry(q: Tensor, k: Tensor, places: Tensor, _: Any = None, **options: Any) -> tuple[Tensor, Tensor]:
    """In place of the rotation: q [B, H, T, D] and k as they are, behind the digits of their positions [B or 1, T].

    A cache that sorts, cuts or drops keys does so to their positions; features that the model adds (those that do
    not rotate) stand behind.
    """
    shifts = 8 * torch.arange(DIGITS, device=places.device)
    digits = ((places[:, None, :, None] >> shifts) & 255).to(q.dtype)
    return tuple(torch.cat((digits.expand(*x.shape[:-1], DIGITS), x), dim=-1) for x in (q, k))  # type: ignore[return-value]


def taken(x: Tensor) -> tuple[Tensor, Tensor]:
    """What `carry` was given: x [B, H, T, D] and its positions, int64 [B, T]."""
    digits = x[:, 0, :, :DIGITS].long()
    return x[..., DIGITS:], (digits << 8 * torch.arange(DIGITS, device=x.device)).sum(-1)


class Attention:
    """In place of transformers' table of attention functions: `attend` with one encoding, whatever is asked for."""

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding

    def get_interface(self, name: str, default: object) -> "Attention":
        """transformers' question for the function of that name."""
        return self

    def __call__(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        scaling: float | None = None,
        dropout: float = 0.0,
        softcap: float | None = None,
        s_aux: Tensor | None = None,
        **options: Any,
    ) -> tuple[Tensor, None]:
        """The output [B, T, H, D], and no weights."""
        unread = [name for name in ELSEWHERE if options.get(name) is not None]
        if unread:
            raise RopewalkError(f"patch: attention was given {', '.join(unread)}, which an encoding's does not read")
        (query, q_places), (key, k_places) = taken(query), taken(key)
        tokens = query.shape[-2]
        if attention_mask is None and 1 < tokens < key.shape[-2]:  # the first call of a fixed cache: the rest is empty
            key, value, k_places = key[:, :, :tokens], value[:, :, :tokens], k_places[:, :tokens]
        causal = options.get("is_causal")
        causal = bool(getattr(module, "is_causal", True) if causal is None else causal)
        seen = seen_by(query, key, q_places, k_places, attention_mask, causal, options.get("sliding_window"))
        out: Any = attend(
            query, key, value, causal=causal, encoding=self.encoding, scale=scaling, dropout_p=dropout,
            softcap=softcap, sinks=s_aux, **seen,
        )  # fmt: skip
        return out.transpose(1, 2).contiguous(), None


def seen_by(
    q: Tensor,
    k: Tensor,
    q_places: Tensor,
    k_places: Tensor,
    mask: Tensor | None,
    causal: bool,
    window: int | None,
) -> dict[str, Any]:
    """Who sees whom by the model's own mask, said in `attend`'s words; positions left out where they are indices.

    Raises:
        RopewalkError: a mask that is not made of causality, a window, padding and packed documents.
    """
    tokens, keys = q.shape[-2], k.shape[-2]
    plain = arange(keys, device=k.device)
    indices = tokens <= keys and bool((k_places == plain).all() and (q_places == plain[keys - tokens :]).all())
    where = {} if indices else {"q_positions": q_places, "k_positions": k_places}
    if mask is None:
        return where
    if not isinstance(mask, Tensor) or mask.dim() != 4:
        raise RopewalkError("patch: an encoding needs a 4-D mask; load the model with attn_implementation='sdpa'")
    seen = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
    real = seen.any(-2).all(1).expand(len(k), -1)
    rules: dict[str, Any] = {"window": window if window is not None and window < keys else None}
    rules["key_mask"] = None if bool(real.all()) else real
    falls = k_places.diff(dim=-1, prepend=k_places[:, :1] - 1) <= 0
    rules["documents"] = falls.cumsum(-1) if tokens == keys and bool((falls & real).any()) else None
    both = {"q_positions": q_places, "k_positions": k_places, "key_mask": None, "window": None, "documents": None}
    ours = sight(q, k, causal=causal, needed=True, **(both | rules)).visible()
    agree = seen.all() if ours is None else ((seen == ours) | ~seen.any(-1, keepdim=True)).all()
    if not bool(agree):
        raise RopewalkError(
            "patch: this call's mask is not causality, a window, padding or packed documents, all that an encoding's "
            "attention knows"
        )
    return where | {name: rule for name, rule in rules.items() if rule is not None}
