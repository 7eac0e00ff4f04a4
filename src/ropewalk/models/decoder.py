"""A small clear Transformer that takes any position encoding."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from ropewalk import positions as _positions
from ropewalk._errors import RopewalkError
from ropewalk.attention import attend
from ropewalk.models.cache import Cache
from ropewalk.modules.encoding import Encoding, check_encoding


class Decoder(nn.Module):
    """A decoder-only Transformer: root-mean-square norms before attention and a gated feed-forward, as Llama has it.

    Args:
        vocab, dim, layers, heads: sizes; a head is dim / heads wide where `head_dim` is left out.
        encoding: any encoding. One object is shared by all layers, its parameters too (T5's table); a sequence has
            one for each layer: tables of their own, global and local bases, `NoPE()` every n-th layer.
        kv_heads: key and value heads, `heads` where left out.
        hidden: width of the feed-forward, 4 dim where left out.
        window: how many positions back a query sees, itself included; one for all layers or one each.
        eps: of the norms.
        tied: whether the output layer is the embedding.

    Raises:
        RopewalkError: a sequence of another length than `layers`.

    Example:
        >>> import torch, ropewalk as rw
        >>> local, everywhere = rw.Rotary(16), rw.Rotary(16, base=1e6)
        >>> model = Decoder(256, 64, layers=2, heads=4, encoding=[local, everywhere], window=[32, None])
        >>> model(torch.zeros(1, 10, dtype=torch.int64)).shape
        torch.Size([1, 10, 256])
    """

    def __init__(
        self,
        vocab: int,
        dim: int,
        *,
        layers: int,
        heads: int,
        encoding: Encoding | Sequence[Encoding],
        kv_heads: int | None = None,
        head_dim: int | None = None,
        hidden: int | None = None,
        window: int | Sequence[int | None] | None = None,
        eps: float = 1e-6,
        tied: bool = False,
    ) -> None:
        super().__init__()
        each = [check_encoding("Decoder", one) for one in _one_a_layer("encoding", encoding, layers)]
        self.encodings = nn.ModuleList(each)
        self._distinct = [layer for layer in range(layers) if each.index(each[layer]) == layer]
        self.windows = _one_a_layer("window", window, layers)
        kv_heads = heads if kv_heads is None else kv_heads
        head_dim = dim // heads if head_dim is None else head_dim
        hidden = 4 * dim if hidden is None else hidden
        self.embedding = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim, heads, kv_heads, head_dim, hidden, eps) for _ in range(layers))
        self.norm = nn.RMSNorm(dim, eps)
        self.head = nn.Linear(dim, vocab, bias=False)
        for own in (self.embedding, self.blocks, self.head):  # an encoding starts as it was made
            for module in own.modules():
                if isinstance(module, nn.Linear | nn.Embedding):
                    nn.init.normal_(module.weight, std=0.02)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor | None = None,
        *,
        key_mask: Tensor | None = None,
        documents: Tensor | None = None,
        length: int | Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """Logits [B, T, vocab] of tokens [B, T].

        Args:
            tokens: those that the cache does not hold yet.
            positions: theirs, [T] or [B, T]. Left out, they follow the cache, counting real tokens under a `key_mask`.
            key_mask: [B, cached + T], bool or 0/1, 1 = real.
            documents: numbers of packed documents, [cached + T] or [B, cached + T]; needs `positions`.
            length: tokens in each whole sequence, for length-dependent scalings.
            cache: keeps keys and values for the next call.
        """
        past, new = 0 if cache is None else cache.length, tokens.shape[-1]
        if positions is None and documents is not None:
            raise RopewalkError("Decoder: documents were given without positions; see positions.from_cu_seqlens")
        if key_mask is not None and key_mask.shape[-1] != past + new:
            raise RopewalkError(
                f"Decoder: key_mask of shape {tuple(key_mask.shape)} has to cover {past} cached and {new} new tokens"
            )
        if positions is None and key_mask is not None:
            positions = _positions.from_attention_mask(key_mask)[:, past:]
        x = self.embedding(tokens)
        where = _positions.arange(new, past, device=x.device) if positions is None else positions
        for layer in self._distinct:  # a shared encoding adds its positions once
            x = self.encodings[layer].embed(x, where)  # type: ignore[operator]
        places = positions if cache is None else cache.place(positions)
        sight: dict[str, Any] = {
            "q_positions": positions,
            "k_positions": places,
            "key_mask": key_mask,
            "documents": documents,
            "length": length,
        }
        for layer, block in enumerate(self.blocks):
            x = block(x, cache, layer, encoding=self.encodings[layer], window=self.windows[layer], **sight)
        if cache is not None:
            cache.advance(new, places)
        return self.head(self.norm(x))


class Block(nn.Module):
    """Attention and feed-forward, each on the norm of what it adds to."""

    def __init__(self, dim: int, heads: int, kv_heads: int, head_dim: int, hidden: int, eps: float) -> None:
        super().__init__()
        self.attention_norm, self.feed_norm = nn.RMSNorm(dim, eps), nn.RMSNorm(dim, eps)
        self.attention = Attention(dim, heads, kv_heads, head_dim)
        self.gate, self.up = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: Tensor, cache: Cache | None, layer: int, **sight: Any) -> Tensor:
        """x [B, T, C] after the block."""
        x = x + self.attention(self.attention_norm(x), cache, layer, **sight)
        y = self.feed_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Attention(nn.Module):
    """Projections around `attend`."""

    def __init__(self, dim: int, heads: int, kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        self.q = nn.Linear(dim, heads * head_dim, bias=False)
        self.k = nn.Linear(dim, kv_heads * head_dim, bias=False)
        self.v = nn.Linear(dim, kv_heads * head_dim, bias=False)
        self.out = nn.Linear(heads * head_dim, dim, bias=False)

    def forward(self, x: Tensor, cache: Cache | None, layer: int, **sight: Any) -> Tensor:
        """What x [B, T, C] gathers from the tokens that it sees."""
        q, k, v = _split(self.q(x), self.heads), _split(self.k(x), self.kv_heads), _split(self.v(x), self.kv_heads)
        if cache is not None:
            k, v = cache.append(layer, k, v)
        seen: Any = attend(q, k, v, causal=True, **sight)
        return self.out(seen.transpose(1, 2).flatten(2))


def _split(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _one_a_layer(name: str, given: object, layers: int) -> list:
    each = list(given) if isinstance(given, Sequence) else [given] * layers
    if len(each) != layers:
        raise RopewalkError(f"Decoder: {len(each)} of {name} for {layers} layers; give one, or one a layer")
    return each
