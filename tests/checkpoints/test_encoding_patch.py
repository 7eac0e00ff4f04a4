"""Another encoding inside loaded models, held to transformers' own attention: with its rotation stilled, all tokens at
position 0, and the bias written out in the mask."""

import math

import pytest
import torch
from checkpoints.patched_models import KINDS, NATIVE, in_parts, logits, made, text, written
from every_encoding import vivid
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.t5.modeling_t5 import T5Attention

from ropewalk import (
    ALiBi,
    DistanceBias,
    DualChunk,
    DynamicNTK,
    Learned,
    NoPE,
    RopewalkError,
    Rotary,
    SelfExtend,
    Shaw,
    T5Bias,
    patch,
)
from ropewalk._errors import VerificationError

HEADS, WIDTH = 4, 16
PADDED = torch.tensor([[0] * 6 + [1] * 34, [1] * 40])
WINDOW = 12  # of the layers that slide; see `patched_models`
SLIDING = {"mistral": {0, 1, 2}, "gemma2": {0, 2}, "gemma3_text": {0, 2}}
ROPE = Rotary(WIDTH)
ENCODINGS = {
    "nope": NoPE,
    "alibi": lambda: ALiBi(HEADS),
    "t5": lambda: vivid(T5Bias(HEADS, buckets=8, max_distance=20), 2.0),
    "shaw": lambda: vivid(Shaw(WIDTH, max_distance=5)),
    "self-extend": lambda: SelfExtend(Rotary(WIDTH), group=3, window=8),
    "dual chunk": lambda: DualChunk(Rotary(WIDTH), chunk_size=14, local_size=4),
    "rotary": lambda: Rotary(WIDTH, base=100.0, layout="interleaved"),
    "dynamic": lambda: Rotary(WIDTH, scaling=DynamicNTK(2.0, NATIVE)),
}


def close(found, expected):
    torch.testing.assert_close(found, expected, atol=2e-4, rtol=2e-4)


def distances(length):
    where = torch.arange(length)
    return where[None, :] - where[:, None]


def biases(encoding, length):
    """[H, T, T], by formulas of other people."""
    ahead = distances(length)
    if isinstance(encoding, NoPE):
        return torch.zeros(HEADS, length, length)
    if isinstance(encoding, ALiBi):
        slopes = torch.tensor([2 ** (-8 * (head + 1) / HEADS) for head in range(HEADS)])
        return slopes[:, None, None] * ahead
    bucket = T5Attention._relative_position_bucket(ahead, bidirectional=False, num_buckets=8, max_distance=20)
    return encoding.weight[bucket].permute(2, 0, 1).detach()


def written_out(kind, encoding, tokens, mask):
    """The logits of the untouched model, its rotation stilled and everything else in a mask for each layer."""
    model, length = made(kind), tokens.shape[1]
    ahead, bias = distances(length), biases(encoding, length)
    for index, layer in enumerate(model.model.layers):
        sees = (ahead <= 0) & mask.bool()[:, None, :] & (ahead > -WINDOW if index in SLIDING.get(kind, ()) else True)
        full = bias + torch.zeros(sees.shape).masked_fill(~sees, torch.finfo(torch.float32).min)[:, None]
        layer.self_attn.register_forward_pre_hook(
            lambda module, args, kwargs, full=full: (args, kwargs | {"attention_mask": full}), with_kwargs=True
        )
    return logits(model, tokens, attention_mask=mask, position_ids=torch.zeros_like(tokens))


@pytest.mark.parametrize("name", ["nope", "alibi", "t5"])
@pytest.mark.parametrize("kind", ["llama", "phi", "phi3", "qwen3", "glm", "mistral", "gemma2", "gemma3_text"])
def test_the_logits_are_those_of_a_mask_that_is_written_out(kind, name):
    encoding, tokens = ENCODINGS[name](), text(40, rows=2)
    model = made(kind)
    expected = written_out(kind, encoding, tokens, PADDED)
    before = logits(model, tokens, attention_mask=PADDED)
    with patch(model, encoding=encoding):
        found = logits(model, tokens, attention_mask=PADDED)
    close(found[PADDED.bool()], expected[PADDED.bool()])
    assert not torch.allclose(found[PADDED.bool()], before[PADDED.bool()], atol=0.1)


def test_a_rotation_is_that_of_a_model_built_with_it():
    """Of another base here, by transformers; and nothing changes where it is the model's own."""
    model = made("llama")
    before = logits(model, text(40))
    theirs = made("llama", rope_parameters={"rope_type": "default", "rope_theta": 100.0})
    with patch(model, encoding=Rotary(WIDTH, base=100.0)):
        close(logits(model, text(40)), logits(theirs, text(40)))
    with patch(model, encoding=Rotary(WIDTH)):
        close(logits(model, text(40)), before)


@pytest.mark.parametrize("name", [name for name in ENCODINGS if name != "dynamic"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_cache_changes_nothing(kind, name):
    """However the tokens arrive, beside padding, and past the window, where caches drop keys."""
    if kind == "phi" and name == "rotary":
        pytest.skip("it rotates more features than the model hands over")
    model, tokens = made(kind), text(40, rows=2)
    with patch(model, encoding=ENCODINGS[name]()):
        whole = logits(model, tokens, attention_mask=PADDED)[PADDED.bool()]
        for parts in ([20, 1, 1, 18], [7, 33]):
            close(in_parts(model, tokens, parts, PADDED)[PADDED.bool()], whole)
        close(logits(model, tokens[:1, 6:]), logits(model, tokens, attention_mask=PADDED)[:1, 6:])


@given(cuts=st.sets(st.integers(1, 23), max_size=4), padding=st.integers(0, 10), name=st.sampled_from(["t5", "shaw"]))
@settings(max_examples=20)
def test_however_a_text_is_cut_and_padded(cuts, padding, name):
    model, tokens = made("qwen3"), text(24, rows=2)
    mask = torch.ones_like(tokens)
    mask[0, :padding] = 0
    ends = [*sorted(cuts), 24]
    parts = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    with patch(model, encoding=ENCODINGS[name]()):
        close(in_parts(model, tokens, parts, mask)[0, padding:], logits(model, tokens[:1, padding:])[0])


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_text_written_with_a_cache_is_the_one_written_without(name):
    for kind in ("llama", "gemma2"):
        model = made(kind)
        with patch(model, encoding=ENCODINGS[name]()):
            for options in ({}, {"num_beams": 2}, {"cache_implementation": "static"}):
                sequence, _ = written(model, text(28), 10, **options)
                alike = {key: value for key, value in options.items() if key == "num_beams"}
                assert torch.equal(sequence, written(model, text(28), 10, use_cache=False, **alike)[0])


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_packed_texts_do_not_see_each_other(implementation):
    """transformers tells them apart by positions that fall, where it is given no mask."""
    model = made("llama", attn_implementation=implementation)
    first, second = text(20), text(15)
    places = torch.cat((torch.arange(20), torch.arange(15)))[None]
    with patch(model, encoding=ALiBi(HEADS)):
        packed = logits(model, torch.cat((first, second), dim=1), position_ids=places)
        close(packed[:, 20:], logits(model, second))


def test_tokens_that_stand_apart_do():
    """Positions decide, not indices."""
    model, places = made("llama"), 3 * torch.arange(20)[None]
    apart = 3.0 * distances(20)
    slopes = torch.tensor([2 ** (-8 * (head + 1) / HEADS) for head in range(HEADS)])[:, None, None]
    mask = (slopes * apart).masked_fill(apart > 0, torch.finfo(torch.float32).min)[None]
    expected = logits(model, text(20), attention_mask=mask, position_ids=torch.zeros_like(places))
    with patch(model, encoding=ALiBi(HEADS)):
        close(logits(model, text(20), attention_mask=torch.ones(1, 20), position_ids=places), expected)


def test_what_it_learns_learns():
    encoding, model = T5Bias(HEADS), made("llama")
    with patch(model, encoding=encoding):
        model(text(20)).logits.square().mean().backward()
        assert encoding.weight.grad.abs().sum() > 0
        assert not any(parameter is encoding.weight for parameter in model.parameters())


def test_positions_survive_a_cache_in_bfloat16():
    """Which holds no whole number above 256."""
    model = made("llama", max_position_embeddings=512).bfloat16()
    with patch(model, encoding=ALiBi(HEADS)):
        whole = logits(model, text(400))[:, 300:].float()
        parts = in_parts(model, text(400), [300, 99, 1])[:, 300:].float()
    assert (whole - parts).std() < 0.02 * whole.std()


def test_a_patched_model_compiles():
    model = made("llama", num_hidden_layers=1)
    with patch(model, encoding=ALiBi(HEADS)):
        close(logits(torch.compile(model, backend="aot_eager"), text(40)), logits(model, text(40)))
    torch.compiler.reset()


class Both(ALiBi):
    """It rotates and it biases."""

    def rotate(self, q, k, q_positions, k_positions, length=None):
        return ROPE.rotate(q, k, q_positions, k_positions, length)


@pytest.mark.parametrize("kind", ["llama", "qwen3", "mistral"])
def test_two_doors_at_once(kind):
    """The model's own rotation, and a mask of slopes beside it."""
    model, tokens = made(kind), text(12)
    slopes = torch.tensor([2 ** (-8 * (head + 1) / HEADS) for head in range(HEADS)])[:, None, None]
    apart = distances(12)
    mask = (slopes * apart).masked_fill(apart > 0, torch.finfo(torch.float32).min)[None]
    expected = logits(model, tokens, attention_mask=mask, position_ids=torch.arange(12)[None])
    with patch(model, encoding=Both(HEADS)):
        close(logits(model, tokens), expected)


def test_a_text_that_is_not_long_is_read_as_before():
    """And a longer one otherwise: by `SelfExtend` all but the last 20 tokens are seen elsewhere."""
    model = made("llama")
    before = logits(model, text(40))
    with patch(model, encoding=SelfExtend(ROPE, group=4, window=20)):
        found = logits(model, text(40))
    close(found[:, :20], before[:, :20])
    assert not torch.allclose(found[:, 20:], before[:, 20:], atol=0.05)


class Late(DistanceBias):
    """It fails when it is asked."""

    def by_distance(self, relative):
        raise ValueError("not today")


@pytest.mark.parametrize(
    ("kind", "encoding", "told"),
    [
        ("llama", Learned(64, 64), "added to the input"),
        ("llama", Late(), "not today"),
        ("llama", ALiBi(8), "cannot be changed in this way"),
        ("nanochat", ALiBi(HEADS), "cannot be changed in this way"),  # it norms keys after the rotation
    ],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
def test_what_cannot_be_done_is_refused_with_its_reason(kind, encoding, told):
    model = made(kind)
    with pytest.raises(VerificationError, match=told):
        patch(model, encoding=encoding)
    assert not any("forward" in vars(module) for module in model.modules())
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_masks_of_another_kind_are_refused():
    model = made("llama")
    odd = torch.full((1, 1, 20, 20), -math.inf).triu(1)
    odd[0, 0, 10:, 2] = -math.inf
    with patch(model, encoding=ALiBi(HEADS)), pytest.raises(RopewalkError, match="this call's mask"):
        logits(model, text(20), attention_mask=odd)


def test_a_cache_that_would_round_positions_is_refused():
    model = made("llama")
    with patch(model, encoding=ALiBi(HEADS)), torch.no_grad():
        cache = model(text(10), use_cache=True).past_key_values
        cache.layers[0].nbits = 4
        with pytest.raises(RopewalkError, match="quantised cache"):
            model(text(1), past_key_values=cache)
