"""Hold the converted weights under their pairing to the original ones under theirs."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from ropewalk._errors import RopewalkError, VerificationError
from ropewalk.checkpoints.convert.families import Family, family_of
from ropewalk.checkpoints.convert.files import Told
from ropewalk.checkpoints.convert.tensors import Piece, pieces
from ropewalk.checkpoints.load import as_it_is
from ropewalk.checkpoints.spec import LayerSpec, ModelSpec
from ropewalk.checkpoints.weights import elements, opened

TOLERANCE = 1e-5  # of the largest score or logit, in float32
TOKENS, FARTHEST = 48, 4096  # of random hidden states, and of tokens; the last position that they may have
EPS = 1e-6
Hidden = dict[int, Tensor]  # hidden states by their width: latent attention makes queries and keys of two
MARGIN = 1.2  # memory that a pass takes beside the weights


def scores_error(before: Path, spec: ModelSpec, after: Path, written: ModelSpec, told: Told) -> tuple[float, float]:
    """How far the scores q . k of the rotated projections of random hidden states differ, of the largest, in any layer.

    Norms of queries and keys are computed with their weights and an epsilon of 1e-6.

    Returns:
        The largest difference, and the smallest in any layer if the new weights are read under the old pairing.

    Raises:
        VerificationError: they differ by more than 1e-5.
    """
    old, new = _by_layer(pieces(before, spec)), _by_layer(pieces(after, written))
    family, random = family_of(spec.model_type), torch.Generator().manual_seed(0)
    worst, misread = 0.0, float("inf")
    for number, (layer, found) in enumerate(old.items()):
        told("comparing scores", number / len(old))
        widths = {piece.shape[1] for piece in found if piece.is_projection}
        x = {width: torch.randn(TOKENS, width, generator=random) for width in sorted(widths)}
        positions = torch.randint(min(FARTHEST, spec.native_length or FARTHEST), (TOKENS,), generator=random)
        want = _scores(found, spec.layers[layer], family, x, positions)
        got = _scores(new[layer], written.layers[layer], family, x, positions)
        wrong = _scores(new[layer], spec.layers[layer], family, x, positions)
        error = apart(got, want)
        if not error <= TOLERANCE:  # worded so that a NaN fails
            raise VerificationError(
                f"{after}: the scores of layer {layer} are {error:.2g} of the largest away from the original's, more "
                f"than {TOLERANCE:g}; nothing was written"
            )
        worst, misread = max(worst, error), min(misread, apart(wrong, want))
    return worst, misread


def logits_error(before: Path, after: Path, memory: int | None) -> tuple[float | None, str]:
    """How far the logits of the two checkpoints differ, of the largest; None where they cannot be had, and why.

    Each runs in transformers, one after the other, in float32; the one that its code does not pair for is made to.

    Raises:
        VerificationError: they differ by more than 1e-5.
    """
    need = int(4 * MARGIN * sum(elements(before).values()))
    if memory is not None and need > memory:
        return None, f"running it in float32 takes {need / 1e9:.1f} GB, and {memory / 1e9:.1f} GB are free"
    try:
        want = _logits(before)
    except RopewalkError as error:
        return None, str(error)
    worst = apart(_logits(after), want)
    if not worst <= TOLERANCE:
        raise VerificationError(
            f"{after}: its logits are {worst:.2g} of the largest away from the original's, more than {TOLERANCE:g}; "
            "nothing was written"
        )
    return worst, ""


def apart(a: Tensor, b: Tensor) -> float:
    """The largest difference, of the largest number."""
    return ((a - b).abs().max() / b.abs().max()).item()


def _logits(path: Path) -> Tensor:
    model = as_it_is(path).model
    tokens = torch.randint(model.config.vocab_size, (1, TOKENS), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        return model(input_ids=tokens, attention_mask=torch.ones_like(tokens), use_cache=False).logits


def _by_layer(found: Sequence[Piece]) -> dict[int, list[Piece]]:
    return {layer: [piece for piece in found if piece.layer == layer] for layer in {piece.layer for piece in found}}


def _scores(found: Sequence[Piece], layer: LayerSpec, family: Family, x: Hidden, positions: Tensor) -> Tensor:
    """[H, T, T] of one layer: every query with every key, before any mask."""
    q, k = (_projected(found, side, family, x) for side in (0, 1))
    q, k = layer.rotary()(q[None], k[None], positions)
    return q[0] @ k[0].repeat_interleave(q.shape[1] // k.shape[1], dim=0).mT


def _projected(found: Sequence[Piece], side: int, family: Family, x: Hidden) -> Tensor:
    """Queries (side 0) or keys (1) of hidden states x[C] [T, C] before they are rotated, [H, T, D]."""
    own: dict[bool, dict[str, list[Tensor]]] = {False: {}, True: {}}
    for piece in sorted(found, key=lambda piece: (len(piece.name), piece.name)):  # StableLM's norms by their number
        if piece.blocks[side]:
            own[piece.is_norm].setdefault(piece.part.rsplit(".", 1)[1], []).append(_rows(piece, side))
    (weight,) = own[False]["weight"]
    made, width = x[weight.shape[-1]] @ weight.flatten(0, 1).T, weight.shape[1]
    made += sum(bias.flatten() for bias in own[False].get("bias", ()))
    norm = {name: torch.cat(parts).flatten() for name, parts in own[True].items()}
    each = made.unflatten(-1, (-1, width))
    if norm:
        whole = len(norm["weight"]) == made.shape[-1] and family.norm == "rms"
        each = _normed(made if whole else each, norm, family).reshape(each.shape)
    return each.transpose(0, 1)


def _normed(y: Tensor, norm: dict[str, Tensor], family: Family) -> Tensor:
    """y over its last axis, by weights of that width, or of one for each head."""
    y = y - y.mean(-1, keepdim=True) if family.norm == "layer" else y
    y = y * (y.square().mean(-1, keepdim=True) + EPS).rsqrt()
    weight, bias = norm["weight"] + family.offset, norm.get("bias", torch.zeros(()))
    shape = (-1, y.shape[-1])
    return y * weight.view(shape) + (bias.view(shape) if bias.dim() else bias)


def _rows(piece: Piece, side: int) -> Tensor:
    """What rotates of the heads of queries or keys in a tensor, [H, D, C], float32."""
    with opened(piece.shard) as file:
        whole = file.get_tensor(piece.name).float()
    whole = whole.reshape(piece.rows, -1)
    assert piece.spec.head_dim is not None
    return whole.unflatten(0, (-1, piece.width))[piece.blocks[side], -piece.spec.head_dim :]
