"""A graph through blocks of queries behaves as one through queries at once."""

import contextlib
import gc
import weakref

import pytest
import torch
from every_encoding import DIM, HEADS, WIDTH, attended, built, sample
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ropewalk import RopewalkError, attend
from ropewalk.attention import blocks

LENGTH = 13
NAMES = ["nope", "rotary", "alibi", "t5", "shaw"]


@pytest.fixture(params=["at once", "blocks"])
def rows(request, monkeypatch) -> str:
    if request.param == "blocks":
        monkeypatch.setattr(blocks, "LOGITS", 1)
        monkeypatch.setattr(blocks, "LEAST_ROWS", 2)
    return request.param


def vectors(length: int = LENGTH, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    return [sample(2, HEADS, length, WIDTH, seed=seed, dtype=dtype) for seed in range(3)]


def attended_by(name: str, *given: Tensor, encoding: torch.nn.Module | None = None, **options) -> Tensor:
    encoding = built(name).to(given[0].dtype) if encoding is None else encoding
    return attend(*given, causal=True, encoding=encoding, backend="reference", **options)


@pytest.mark.parametrize("chosen", [(0,), (1,), (2,), (0, 2)])
@pytest.mark.parametrize("name", NAMES)
def test_only_some_inputs_want_a_gradient(name, chosen, rows):
    every, some = ([given.requires_grad_() for given in vectors()], vectors())
    for i in chosen:
        some[i].requires_grad_()
    attended_by(name, *every).square().sum().backward()
    encoding = built(name).double().requires_grad_(False)
    attended_by(name, *some, encoding=encoding).square().sum().backward()
    for i, (one, other) in enumerate(zip(every, some, strict=True)):
        if i in chosen:
            torch.testing.assert_close(other.grad, one.grad)
        else:
            assert other.grad is None
    assert all(parameter.grad is None for parameter in encoding.parameters())


@pytest.mark.parametrize("name", ["t5", "shaw"])
def test_only_the_encoding_wants_a_gradient(name, rows):
    one, other = built(name).double(), built(name).double()
    attended_by(name, *vectors(), encoding=one).square().sum().backward()
    attended_by(name, *(given.requires_grad_() for given in vectors()), encoding=other).square().sum().backward()
    for left, right in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(left.grad, right.grad)


@pytest.mark.parametrize("name", ["t5", "shaw"])
def test_nobody_wants_a_gradient(name, rows):
    encoding = built(name).double().requires_grad_(False)
    assert not attended_by(name, *vectors(), encoding=encoding).requires_grad


@pytest.mark.parametrize("name", NAMES)
def test_one_tensor_for_queries_keys_and_values(name, rows):
    x = vectors()[0].requires_grad_()
    attended_by(name, x, x, x).square().sum().backward()
    apart = [vectors()[0].requires_grad_() for _ in range(3)]
    attended_by(name, *apart).square().sum().backward()
    torch.testing.assert_close(x.grad, sum(given.grad for given in apart))


@pytest.mark.parametrize("name", NAMES)
def test_a_graph_that_is_retained(name, rows):
    given = [given.requires_grad_() for given in vectors()]
    output = attended_by(name, *given).square().sum()
    first = torch.autograd.grad(output, given, retain_graph=True)
    second = torch.autograd.grad(output, given)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(output, given)


@pytest.mark.parametrize("name", NAMES)
def test_an_input_changed_in_place_before_the_backward_pass_is_an_error(name, rows):
    given = [given.requires_grad_() for given in vectors()]
    moved = [one * 1.0 for one in given]
    output = attended_by("nope" if name == "rotary" else name, *moved)
    moved[2].mul_(2.0)
    with pytest.raises(RuntimeError, match="inplace"):
        output.sum().backward()


@pytest.mark.parametrize("name", ["shaw"])
def test_a_parameter_changed_in_place_before_the_backward_pass_is_an_error(name, rows):
    """An optimizer's step between the two would give gradients of neither."""
    encoding = built(name).double()
    output = attended_by(name, *(given.requires_grad_() for given in vectors()), encoding=encoding)
    with torch.no_grad():
        encoding.keys.mul_(2.0)
    with pytest.raises(RuntimeError, match="inplace"):
        output.sum().backward()


@pytest.mark.parametrize("name", ["t5", "shaw"])
def test_parameters_given_by_functional_call(name, rows):
    """torch.func.functional_call puts them back before the backward pass."""

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoding = built(name).double()

        def forward(self, *given: Tensor) -> Tensor:
            return attended_by(name, *given, encoding=self.encoding)

    model = Model()
    theirs = {key: (-2 * value).detach().requires_grad_() for key, value in model.named_parameters()}
    given = [one.requires_grad_() for one in vectors()]
    torch.func.functional_call(model, theirs, tuple(given)).square().sum().backward()
    twin = Model()
    twin.load_state_dict(theirs)
    expected = [one.requires_grad_() for one in vectors()]
    twin(*expected).square().sum().backward()
    for one, other in zip(given, expected, strict=True):
        torch.testing.assert_close(one.grad, other.grad)
    for key, parameter in twin.named_parameters():
        torch.testing.assert_close(theirs[key].grad, parameter.grad)


@pytest.mark.parametrize("name", NAMES)
def test_activation_checkpoints_free_keys_and_values(name, rows):
    """What a checkpoint around attention is there to free; kept by a graph, they would cost what it saves."""
    encoding, alive = built(name), []

    def run(x: Tensor) -> Tensor:
        q, k, v = (y.unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) for y in (x * 2.0, x * 3.0, x * 4.0))
        alive.extend(weakref.ref(given.untyped_storage()) for given in (q, k, v))
        return attend(q, k, v, causal=True, encoding=encoding, backend="reference")

    x = sample(2, LENGTH, DIM).requires_grad_()
    output = checkpoint(run, x, use_reentrant=False)
    gc.collect()
    assert [ref() is None for ref in alive] == [True] * 3
    output.square().sum().backward()
    twin = sample(2, LENGTH, DIM).requires_grad_()
    run(twin).square().sum().backward()
    torch.testing.assert_close(x.grad, twin.grad)


@pytest.mark.parametrize("name", NAMES)
def test_low_precision_gradients_of_many_blocks(name, monkeypatch):
    """128 blocks add to the gradient of the first key; sums of bfloat16s would stop growing."""
    monkeypatch.setattr(blocks, "LOGITS", 1)
    errors = {}
    for least in (1, 128):
        monkeypatch.setattr(blocks, "LEAST_ROWS", least)
        low = [0.5 * sample(1, HEADS, 128, WIDTH, seed=seed) + 0.5 for seed in range(3)]
        low = [given.to(torch.bfloat16).requires_grad_() for given in low]
        high = [given.detach().double().requires_grad_() for given in low]
        encoding = built(name).to(torch.bfloat16)
        exact = built(name).to(torch.bfloat16).double()
        attended_by(name, *low, encoding=encoding).sum().backward()
        attended_by(name, *high, encoding=exact).sum().backward()
        pairs = [*zip(low, high, strict=True), *zip(encoding.parameters(), exact.parameters(), strict=True)]
        errors[least] = [((one.grad.double() - other.grad).norm() / other.grad.norm()).item() for one, other in pairs]
    unit = torch.finfo(torch.bfloat16).eps / 2
    for many, once in zip(errors[1], errors[128], strict=True):
        assert many < once + unit, errors


@pytest.mark.parametrize("name", ["learned", "rotary", "t5", "shaw"])
def test_one_encoding_twice_in_a_graph(name, rows):
    encoding, x = built(name).double(), sample(2, LENGTH, DIM, dtype=torch.float64).requires_grad_()
    once = attended(encoding, x, backend="reference").transpose(1, 2).flatten(2)
    attended(encoding, once, backend="reference").square().sum().backward()
    assert torch.autograd.gradcheck(
        lambda x, *_: attended(encoding, attended(encoding, x).transpose(1, 2).flatten(2)).square().sum(),
        (x, *encoding.parameters()),
        fast_mode=True,
    )


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("name", ["nope", "t5", "shaw"])
def test_a_second_derivative_is_right_or_refused(name, constant, monkeypatch):
    """As gradient penalties ask for: not zero in silence, with an upstream gradient that depends on x and without."""

    def penalty() -> Tensor:
        x, encoding = vectors()[0].requires_grad_(), built(name).double()
        output = attended_by(name, x, x, x, encoding=encoding)
        (first,) = torch.autograd.grad((output * (output.detach() if constant else output)).sum(), x, create_graph=True)
        (first.square().sum() + x.square().sum()).backward()
        return x.grad

    expected = penalty()
    monkeypatch.setattr(blocks, "LOGITS", 1)
    monkeypatch.setattr(blocks, "LEAST_ROWS", 2)
    with contextlib.suppress(RuntimeError, RopewalkError):
        torch.testing.assert_close(penalty(), expected)
