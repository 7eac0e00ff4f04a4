"""A device that has no float64, pretended: its tensors are on the CPU in truth, and making one in float64 raises.

What this shows: which operations are asked of such a device, in which dtypes, and that their numbers are the CPU's.
What it does not: that a real device has a kernel for each of them, or that its float32 rounds as the CPU's does. It is
called "lazy", a kind of device that torch lets one index on without having it.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext

import pytest
import torch
from every_encoding import DIM, ENCODINGS, answers, attended, built, decoder, sample, tokens
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from ropewalk.functional import rotary

DEVICE = torch.device("lazy", 0)


class Elsewhere(Tensor):
    """A tensor that says it stands on DEVICE."""

    @staticmethod
    def __new__(cls, held: Tensor) -> "Elsewhere":
        assert held.dtype not in (torch.float64, torch.complex128), f"{DEVICE.type} has no {held.dtype}"
        return Tensor._make_wrapper_subclass(
            cls, held.shape, strides=held.stride(), dtype=held.dtype, device=DEVICE, requires_grad=False
        )

    def __init__(self, held: Tensor) -> None:
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError(f"{func} outside of Pretended")


class Pretended(TorchDispatchMode):
    """While it lasts there is such a device; it refuses operands of two devices, as devices do."""

    def __torch_dispatch__(self, func: Callable, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        operands = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        there = [isinstance(operand, Elsewhere) for operand in operands]
        asked = kwargs.get("device")
        moves = func in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
        mixed = any(there) and any(not one and operand.dim() for one, operand in zip(there, operands, strict=True))
        assert moves or not mixed, f"{func}: operands on the CPU and on {DEVICE.type}"
        # MPS casts before it copies: to float64 on the CPU is two steps, .cpu().double()
        assert not any(there) or kwargs.get("dtype") not in (torch.float64, torch.complex128), f"{func} to float64"
        if asked is not None:
            kwargs["device"] = torch.device("cpu")
        args, kwargs = tree_map(lambda leaf: leaf.held if isinstance(leaf, Elsewhere) else leaf, (args, kwargs))
        result = func(*args, **kwargs)
        lands = any(there) if asked is None else torch.device(asked).type == DEVICE.type
        return tree_map(lambda leaf: Elsewhere(leaf) if lands and isinstance(leaf, Tensor) else leaf, result)


@pytest.fixture
def pretended(monkeypatch) -> Iterator[None]:
    monkeypatch.setattr(rotary, "WITHOUT_FLOAT64", (DEVICE.type,))
    autocast = torch.autocast  # which real devices have and this one lacks
    stand_in = lambda kind, **options: nullcontext() if kind == DEVICE.type else autocast(kind, **options)  # noqa: E731
    monkeypatch.setattr(torch, "autocast", stand_in)
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device=...) then asks the mode, too
    try:
        with torch.no_grad(), Pretended():
            yield
    finally:
        torch._C._set_only_lift_cpu_tensors(before)


def test_devices_without_float64_are_known():
    assert "mps" in rotary.WITHOUT_FLOAT64


def moved(module: torch.nn.Module) -> torch.nn.Module:
    """`module.to(DEVICE)`, which would need the real one to swap what parameters hold."""
    for child in module.modules():
        for name, parameter in child.named_parameters(recurse=False):
            child._parameters[name] = torch.nn.Parameter(parameter.to(DEVICE), requires_grad=False)
    return module


def back(found: Tensor) -> Tensor:
    assert found.device == DEVICE, "a result stands where its input stands"
    return found.cpu()


def test_the_pretence_can_be_caught(pretended):
    there = torch.arange(3, device=DEVICE)
    assert there.device == (there + 1).device == DEVICE
    assert (there.float() * 2).cpu().tolist() == [0, 2, 4]
    for wrong in (
        there.double,
        lambda: torch.zeros(2, dtype=torch.float64, device=DEVICE),
        lambda: there + there.cpu(),
    ):
        with pytest.raises(AssertionError):
            wrong()


@pytest.mark.parametrize("name", ["sinusoidal interleaved", "rotary", "rotary yarn"])
def test_and_would_catch_a_device_that_is_not_known(name, pretended, monkeypatch):
    monkeypatch.setattr(rotary, "WITHOUT_FLOAT64", ())
    with pytest.raises(AssertionError, match="float64"):
        answers(moved(built(name)), 100 + torch.arange(6, device=DEVICE))


@pytest.mark.parametrize("name", ENCODINGS)
def test_doors_answer_as_on_the_cpu(name, pretended):
    where = torch.tensor([100, 101, 90, 127, 3, 4])
    if name != "learned":
        where = 16_000_000 + where
    expected = answers(built(name), where)
    found = answers(moved(built(name)), where.to(DEVICE))
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(back(one), other)


@pytest.mark.parametrize("name", ENCODINGS)
def test_attention_and_decoder_say_what_they_say_on_the_cpu(name, pretended):
    x, where = sample(2, 12, DIM), torch.stack([torch.arange(12), 40 + torch.arange(12)])
    options = {"window": 7, "backend": "reference"}
    expected = attended(built(name), x, where, **options)
    found = attended(moved(built(name)), x.to(DEVICE), where.to(DEVICE), **options)
    torch.testing.assert_close(back(found), expected, rtol=0, atol=1e-6)
    model, said = decoder(built(name)), tokens(2, 20)
    expected = model(said)
    torch.testing.assert_close(back(moved(model)(said.to(DEVICE))), expected, rtol=0, atol=1e-5)
