"""Steps in a row, activation checkpointing around a block, and gradients against finite differences."""

import copy

import pytest
import torch
from every_encoding import ADDED, DIM, ENCODINGS, HEADS, RELATIVE, WIDTH, attended, built, decoder, sample, tokens
from torch.utils.checkpoint import checkpoint

from ropewalk import attend
from ropewalk.models import Cache


def loss(model: torch.nn.Module, length: int) -> torch.Tensor:
    said = tokens(2, length)
    return torch.nn.functional.cross_entropy(model(said[:, :-1]).flatten(0, 1), said[:, 1:].flatten())


@pytest.mark.parametrize("name", ENCODINGS)
def test_two_steps_in_a_row(name):
    """The second step is the first of a fresh model that has its weights: no graph and no table is left behind."""
    model = decoder(built(name))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for length in (9, 20):
        before = copy.deepcopy(model.state_dict())
        optimizer.zero_grad()
        loss(model, length).backward()
        fresh = decoder(built(name))
        fresh.load_state_dict(before)
        loss(fresh, length).backward()
        for (key, one), (_, other) in zip(model.named_parameters(), fresh.named_parameters(), strict=True):
            assert torch.equal(one.grad, other.grad), key
        optimizer.step()
    moved = [key for key, parameter in model.named_parameters() if not torch.equal(parameter, before[key])]
    assert moved == [key for key, _ in model.named_parameters()], "every parameter learns"


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("name", ENCODINGS)
def test_two_backward_passes_of_one_encoding(name, backend):
    encoding, x = built(name), sample(2, 9, DIM).requires_grad_()
    grads = []
    for _ in range(2):
        x.grad = None
        attended(encoding, x, backend=backend).square().sum().backward()
        grads.append(x.grad)
    assert torch.equal(*grads)


@pytest.mark.parametrize("name", ENCODINGS)
def test_after_evaluation_it_still_trains(name):
    """What inference mode made must not turn up in a later graph."""
    encoding, model = ENCODINGS[name](), decoder(built(name))
    with torch.inference_mode():
        attended(encoding, sample(2, 9, DIM))
        expected = model(tokens(2, 9))
    torch.testing.assert_close(model(tokens(2, 9)), expected.clone(), rtol=0, atol=1e-5)
    loss(model, 10).backward()
    x = sample(2, 9, DIM).requires_grad_()
    attended(encoding, x).sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("name", ENCODINGS)
def test_activation_checkpoints_around_a_block(name, reentrant):
    results = []
    for kept in (True, False):
        model, x = decoder(built(name)).double(), sample(2, 9, DIM, dtype=torch.float64).requires_grad_()
        block, encoding = model.blocks[0], model.encodings[0]
        run = lambda x, block=block, encoding=encoding: block(x, Cache(), 0, encoding=encoding)  # noqa: E731
        output = run(x) if kept else checkpoint(run, x, use_reentrant=reentrant)
        output.square().sum().backward()
        results.append([output.detach(), x.grad, *(parameter.grad for parameter in block.parameters())])
        results[-1] += [parameter.grad for parameter in encoding.parameters()] if name not in ADDED else []
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", ENCODINGS)
def test_activation_checkpoints_inside_a_decoder(name):
    """As transformers' and torchtune's helpers put them: each block's forward is wrapped, the model's is not."""
    plain, model = decoder(built(name)), decoder(built(name))
    for block in model.blocks:
        forward = block.forward
        block.forward = lambda *given, forward=forward, **options: checkpoint(
            forward, *given, use_reentrant=False, **options
        )
    loss(plain, 9).backward()
    loss(model, 9).backward()
    for (key, one), (_, other) in zip(plain.named_parameters(), model.named_parameters(), strict=True):
        torch.testing.assert_close(other.grad, one.grad, rtol=1e-5, atol=1e-7, msg=key)


OPTIONS = {
    "plain": {"causal": True},
    "everything": {"causal": True, "softcap": 2.0, "window": 2},
    "both ways": {"causal": False, "softcap": 2.0, "window": 2},
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(
    "name", ["nope", "rotary", "rotary trailing", "alibi", "t5", "shaw", "shaw keys only", "transformer-xl", "cope"]
)
def test_gradients_are_those_of_finite_differences(name, options):
    """float64, with sinks, a window, a cap, fewer key heads, and in the first row a query that sees no key."""
    encoding = built(name).double()
    q, k, v = (sample(2, heads, 4, WIDTH, seed=heads, dtype=torch.float64) for heads in (HEADS, 2, 1))
    v = v.expand(-1, 2, -1, -1).contiguous()
    sinks = sample(HEADS, seed=9, dtype=torch.float64)
    real = torch.tensor([[False, True, True, True], [True, True, True, False]])

    def run(q, k, v, sinks, *_) -> torch.Tensor:
        chosen = OPTIONS[options]
        extra = {} if options == "plain" else {"sinks": sinks, "key_mask": real}
        return attend(q, k, v, encoding=encoding, backend="reference", **chosen, **extra)

    if options == "everything":
        assert not run(q, k, v, sinks)[0, :, 0].any(), "masked by the mask and by causality"
    inputs = [given.requires_grad_() for given in (q, k, v, sinks)]
    assert torch.autograd.gradcheck(run, (*inputs, *encoding.parameters()), fast_mode=True)


@pytest.mark.parametrize("name", RELATIVE)
def test_gradients_of_both_backends_agree(name):
    """Where a fused kernel is chosen, and a query of row 0 sees nothing."""
    real = torch.arange(9) > torch.tensor([[2], [-1]])
    results = []
    for backend in ("auto", "reference"):
        encoding = built(name).double().requires_grad_(False)
        x = sample(2, 9, DIM, dtype=torch.float64).requires_grad_()
        output = attended(encoding, x, backend=backend, kv_heads=2, key_mask=real, window=5)
        assert not output[0, :, :3].any()
        output.square().sum().backward()
        results.append((output.detach(), x.grad))
    torch.testing.assert_close(*results, rtol=1e-10, atol=1e-12)
