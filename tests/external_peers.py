"""What the comparisons with other people's attention share: weights worth comparing, and both results side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ropewalk import attend

TOKENS = 24
# A row padded on the left by 5, as for generation, and a full one.
LEFT_PADDED = (torch.arange(TOKENS) >= torch.tensor([[5], [0]])).long()
RIGHT_PADDED = LEFT_PADDED.flip(1)


@dataclass(frozen=True)
class Heard:
    """One call of somebody's attention module: what it was given and what it gave back."""

    module: Any
    x: Tensor
    out: Tensor
    args: tuple[Any, ...]  # those that were not named


def randomized(module: nn.Module, std: float = 0.3, seed: int = 0) -> nn.Module:
    """Matrices at N(0, std), so that logits differ by a few units; vectors moved off their start by N(0, 0.3)."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data = std * noise if parameter.dim() > 1 else parameter.data.nan_to_num() + 0.3 * noise
    return module.eval()


def sample(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def overhear(model: nn.Module, kind: str, **inputs: Any) -> list[Heard]:
    """Run all of `model`, with the masks and positions that it makes; each call of a module of class `kind`."""
    heard: list[Heard] = []

    def note(module: nn.Module, args: tuple, kwargs: dict[str, Any], out: Any) -> None:
        x = args[0] if args else kwargs["hidden_states"]
        heard.append(Heard(module, x, out[0], args))

    for module in model.modules():
        if type(module).__name__ == kind:
            module.register_forward_hook(note, with_kwargs=True)
    model(**inputs)
    return heard


def assert_same(
    ours: Tensor,
    theirs: Tensor,
    inputs: Sequence[Tensor],
    *,
    pairs: Sequence[tuple[Tensor, Tensor]] = (),
    real: Tensor | None = None,
    tolerance: float = 2e-5,
) -> None:
    """Results and gradients agree to `tolerance` of the largest entry: 2e-5 is some 200 roundings of float32.

    Args:
        ours, theirs: [B, T, C].
        inputs: what both are computed from.
        pairs: an encoding's own parameters, (ours, theirs), equal in value. What `inputs` owe to theirs, as the second
            layer's do where layers share a table, counts on both sides.
        real: [B, T], the rows to compare where some are padding. There a query sees nothing: `attend` gives zeros, and
            a finite mask, such as transformers' eager one, gives the mean of what it was to hide.
    """
    assert ours.shape == theirs.shape
    weight = torch.randn(theirs.shape, generator=torch.Generator().manual_seed(7))
    weight = weight if real is None else weight * real[..., None]
    kept = 1 if real is None else real[..., None]
    own, peers = [own for own, _ in pairs], [peer for _, peer in pairs]
    direct, owed = gradients(ours, weight, own), gradients(ours, weight, peers)
    got = [ours * kept, *gradients(ours, weight, inputs), *(a + b for a, b in zip(direct, owed, strict=True))]
    want = [theirs * kept, *gradients(theirs, weight, [*inputs, *peers])]
    for a, b in zip(got, want, strict=True):
        largest = b.abs().max().item()
        assert largest > 0
        torch.testing.assert_close(a, b, rtol=0, atol=tolerance * largest)


def gradients(result: Tensor, weight: Tensor, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    if not inputs:
        return ()
    return torch.autograd.grad(
        (result * weight).sum(), inputs, retain_graph=True, allow_unused=True, materialize_grads=True
    )


def split(x: Tensor, width: int) -> Tensor:
    """[B, T, H D] -> [B, H, T, D]."""
    return x.unflatten(-1, (-1, width)).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    """[B, H, T, D] -> [B, T, H D]."""
    return x.transpose(1, 2).flatten(2)


def by_projections(
    module: Any,
    x: Tensor,
    width: int,
    out: Callable[[Tensor], Tensor],
    names: Sequence[str] = ("q_proj", "k_proj", "v_proj"),
    **how: Any,
) -> Tensor:
    """`attend` between the projections that `module` has under `names`, and its norms of q and k if it has any."""
    q, k, v = (split(getattr(module, name)(x), width) for name in names)
    if getattr(module, "q_norm", None) is not None:
        q, k = module.q_norm(q), module.k_norm(k)
    return out(joined(attend(q, k, v, **how)))


def weights(module: nn.Module) -> list[Tensor]:
    """Its matrices: those of the projections carry the gradients of q, k, v and of the joined heads."""
    return [parameter for parameter in module.parameters() if parameter.dim() > 1]
