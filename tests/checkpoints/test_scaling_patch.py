"""A scaling inside loaded models: what transformers computes with it in its config, and the same with a cache."""

import copy
import gc
import sys

import pytest
import torch
from checkpoints.patched_models import KINDS, NATIVE, in_parts, logits, made, text, written

from ropewalk import (
    NTK,
    DynamicNTK,
    Linear,
    Llama3,
    LongRoPE,
    NoPE,
    RopewalkError,
    Rotary,
    YaRN,
    from_config,
    patch,
)
from ropewalk._errors import VerificationError

FACTORS = {"short": [1.0 + 0.1 * n for n in range(8)], "long": [2.0 + 0.5 * n for n in range(8)]}
# A scaling of ours, and the keys by which transformers computes it.
SCALINGS = {
    "linear": (Linear(4.0), {"factor": 4.0}),
    "dynamic": (DynamicNTK(4.0, NATIVE), {"factor": 4.0}),
    "yarn": (YaRN(4.0, NATIVE), {"factor": 4.0, "original_max_position_embeddings": NATIVE}),
    "llama3": (
        Llama3(4.0, NATIVE),
        {"factor": 4.0, "original_max_position_embeddings": NATIVE, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    ),
    "longrope": (
        LongRoPE(FACTORS["short"], FACTORS["long"], NATIVE, factor=4.0),
        {"factor": 4.0, "original_max_position_embeddings": NATIVE, "short_factor": FACTORS["short"],
         "long_factor": FACTORS["long"]},
    ),
}  # fmt: skip
MOVING = {name: SCALINGS[name][0] for name in ("dynamic", "longrope")}


def close(found, expected, tolerance=1e-4):
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.parametrize("kind", ["llama", "qwen3", "qwen2"])
def test_the_logits_are_those_of_transformers_with_the_scaling_in_its_config(kind, name):
    """In one pass from a fresh model, which is where transformers is right."""
    ours, keys = SCALINGS[name]
    plain = made(kind)
    with patch(plain, scaling=ours):
        for length in (20, NATIVE, NATIVE + 1, 70):
            theirs = made(kind, rope_parameters={"rope_type": name, "rope_theta": 1e4, **keys})
            close(logits(plain, text(length)), logits(theirs, text(length)))
            assert length <= NATIVE or not torch.allclose(logits(plain, text(length)), logits(made(kind), text(length)))


@pytest.mark.parametrize("kind", ["gpt_neox", "phi", "glm", "gemma", "gemma2", "mistral"])
def test_so_are_those_of_other_architectures(kind):
    """Parts of a head, neighbours in place of halves, capped logits, windows."""
    own = {"partial_rotary_factor": 0.5} if kind in ("gpt_neox", "phi", "glm") else {}
    given = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0, **own}
    plain = made(kind, rope_parameters={"rope_type": "default", "rope_theta": 1e4, **own})
    with patch(plain, scaling=DynamicNTK(4.0, NATIVE)):
        for length in (NATIVE, 70):
            close(logits(plain, text(length)), logits(made(kind, rope_parameters=given), text(length)))


def test_local_layers_of_another_base_keep_their_rotation():
    """As `extend` has it, and as Gemma 3 itself is scaled."""
    local = {"rope_type": "default", "rope_theta": 1e4}
    far = {"rope_type": "default", "rope_theta": 1e6}
    model = made("gemma3_text", rope_parameters={"sliding_attention": local, "full_attention": far})
    keys = {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}
    theirs = made("gemma3_text", rope_parameters={"sliding_attention": local, "full_attention": keys})
    with patch(model, scaling=Linear(8.0)):
        close(logits(model, text(70)), logits(theirs, text(70)))


@pytest.mark.parametrize("scaling", [NTK(1.0), Linear(1.0), YaRN(1.0, NATIVE)], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_a_factor_of_one_changes_nothing(kind, scaling):
    model = made(kind, initializer_range=0.1)
    before = logits(model, text(70))
    with patch(model, scaling=scaling):
        close(logits(model, text(70)), before, 1e-5)
    assert torch.equal(logits(model, text(70)), before)


@pytest.mark.parametrize("prompt", [8, NATIVE - 1, NATIVE, NATIVE + 3])
@pytest.mark.parametrize("name", MOVING)
def test_a_text_written_with_a_cache_is_the_one_written_without(name, prompt):
    """Where transformers keeps what the old frequencies made."""
    model = made("llama")
    with patch(model, scaling=MOVING[name]):
        sequence, chosen = written(model, text(prompt), 40 - prompt)
        again, expected = written(model, text(prompt), 40 - prompt, use_cache=False)
        assert torch.equal(sequence, again)
        close(chosen, expected)
        for step in range(40 - prompt):  # and without generate
            close(chosen[:, step], logits(model, sequence[:, : prompt + step])[:, -1])


@pytest.mark.parametrize("kind", ["phi3", "mistral", "gemma2", "glm", "gpt_neox"])
def test_so_it_is_with_windows_and_parts_of_heads(kind):
    model = made(kind)
    with patch(model, scaling=DynamicNTK(2.0, NATIVE)):
        sequence, chosen = written(model, text(20), 20)
        again, expected = written(model, text(20), 20, use_cache=False)
        assert torch.equal(sequence, again)
        close(chosen, expected)


def test_the_switch_costs_one_pass_and_nothing_else_does():
    model, read = made("llama"), []
    with patch(model, scaling=MOVING["longrope"]):
        model.model.register_forward_pre_hook(lambda m, a, k: read.append(k["input_ids"].shape[1]), with_kwargs=True)
        written(model, text(28), 10)
    assert read == [28, 1, 1, 1, 1, 33, 1, 1, 1, 1]


@pytest.mark.parametrize("name", MOVING)
def test_every_row_has_a_length_of_its_own(name):
    """A short text beside a long one, behind padding, is written as it is alone; positions are given or not."""
    model = made("llama")
    short, long = text(24), text(30)
    tokens = torch.cat((torch.nn.functional.pad(short, (6, 0)), long))
    mask = torch.ones_like(tokens)
    mask[0, :6] = 0
    with patch(model, scaling=MOVING[name]):
        sequences, chosen = written(model, tokens, 14, attention_mask=mask)
        for row, alone in enumerate((short, long)):
            sequence, expected = written(model, alone, 14, use_cache=False)
            assert torch.equal(sequences[row, 6 if row == 0 else 0 :], sequence[0])
            close(chosen[row], expected[0])
        mask = torch.nn.functional.pad(mask, (0, 14), value=1)
        whole = logits(model, sequences, attention_mask=mask)
        close(whole[0, 6:], logits(model, sequences[:1, 6:])[0])


def test_beams_and_a_static_cache_agree_with_no_cache():
    model = made("llama")
    with patch(model, scaling=DynamicNTK(4.0, NATIVE)):
        for options in ({"num_beams": 3}, {"cache_implementation": "static"}):
            given = {key: value for key, value in options.items() if key == "num_beams"}
            sequence, _ = written(model, text(28), 8, **options)
            assert torch.equal(sequence, written(model, text(28), 8, use_cache=False, **given)[0])


def test_a_cache_of_other_frequencies_is_refused():
    model = made("llama")
    with patch(model, scaling=MOVING["longrope"]):
        close(in_parts(model, text(30), [10, 15, 5]), logits(model, text(30)))
        with pytest.raises(RopewalkError, match="has other frequencies"):
            in_parts(model, text(40), [30, 10])
        close(in_parts(model, text(60), [40, 19, 1]), logits(model, text(60)))
    cut = made("llama")
    with patch(cut, scaling=DynamicNTK(4.0, NATIVE)), torch.no_grad():
        cache = cut(text(40), use_cache=True).past_key_values
        cache.crop(-20)  # what is left was made for 40 tokens
        with pytest.raises(RopewalkError, match="empty cache"):
            cut(text(1), past_key_values=cache)


@pytest.mark.parametrize("change", [{"scaling": NTK(4.0)}, {"encoding": NoPE()}], ids=["scaling", "encoding"])
def test_a_cache_from_before_the_patch_is_refused(change):
    model = made("llama")
    with torch.no_grad():
        cache = model(text(10), use_cache=True).past_key_values
        with patch(model, **change):
            with pytest.raises(RopewalkError, match="filled before this patch"):
                model(text(1), past_key_values=cache)
            out = model(text(10), use_cache=True, return_dict=False)
            cache = copy.deepcopy(out[1])
            model(text(1), past_key_values=cache)


def test_more_tokens_after_a_cache_are_not_taken_for_the_whole_text():
    model = made("llama")
    with patch(model, scaling=DynamicNTK(4.0, NATIVE)), torch.no_grad():
        cache = model(text(10), use_cache=True).past_key_values
        with pytest.raises(RopewalkError, match="other frequencies"):
            model.generate(text(25), past_key_values=cache, attention_mask=torch.ones(1, 35), max_new_tokens=2)


def test_calls_leave_nothing_behind():
    model = made("llama")
    with patch(model, scaling=DynamicNTK(4.0, NATIVE)):
        before = logits(model, text(20))
        logits(model, text(90))
        assert torch.equal(logits(model, text(20)), before)
        beside = logits(model, torch.cat((text(70), text(70).flip(1))))
        close(beside[0], logits(model, text(70))[0])


def test_the_scaling_of_a_config_can_be_put_in_its_own_place():
    """Whereby it becomes stateless: LongRoPE of Phi-3, here."""
    keys = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": FACTORS["short"], "partial_rotary_factor": 1.0,
            "long_factor": FACTORS["long"], "original_max_position_embeddings": NATIVE}  # fmt: skip
    model = made(
        "phi3", rope_parameters=keys, original_max_position_embeddings=NATIVE, max_position_embeddings=4 * NATIVE
    )
    expected = {length: logits(model, text(length)) for length in (20, 50)}
    with patch(model, scaling=from_config(model.config).scaling):
        for length, theirs in expected.items():
            close(logits(model, text(length)), theirs)
        sequence, chosen = written(model, text(28), 10)
        close(chosen[:, -1], logits(model, sequence[:, :-1])[:, -1])


def test_gradients_are_those_of_transformers():
    theirs = made("llama", rope_parameters={"rope_type": "yarn", "rope_theta": 1e4, **SCALINGS["yarn"][1]})
    model, found = made("llama"), []
    with patch(model, scaling=SCALINGS["yarn"][0]):
        for one in (model, theirs):
            one(text(40)).logits.square().mean().backward()
            found.append(one.model.layers[1].self_attn.k_proj.weight.grad)
    close(*found)


def test_undoing_leaves_no_trace():
    def state():
        return [(name, sorted(vars(m)), len(m._forward_pre_hooks), len(m._forward_hooks))
                for name, m in model.named_modules()]  # fmt: skip

    model = made("llama")
    before, keys, expected = state(), list(model.state_dict()), logits(model, text(40))
    twins = {name for name in sys.modules if ".ropewalk." in name}
    for change in ({"scaling": DynamicNTK(4.0, NATIVE)}, {"encoding": NoPE()}):
        patched = patch(model, **change)
        assert list(model.state_dict()) == keys
        with pytest.raises(VerificationError, match="patched already"):
            patch(model, **change)
        patched.undo()
        patched.undo()
        assert state() == before
        assert torch.equal(logits(model, text(40)), expected)
    gc.collect()
    assert {name for name in sys.modules if ".ropewalk." in name} <= twins


def test_dropout_and_training_are_as_they_were():
    model = made("llama").train()
    model.model.layers[0].eval()
    with patch(model, scaling=NTK(2.0)):
        assert model.training
        assert not model.model.layers[0].self_attn.training
        assert model.model.layers[1].self_attn.training


def test_a_copy_is_patched_too_and_for_itself():
    model = made("llama")
    with patch(model, scaling=NTK(4.0)):
        expected = logits(model, text(40))
        twin = copy.deepcopy(model)
        assert torch.equal(logits(twin, text(40)), expected)
    assert torch.equal(logits(twin, text(40)), expected)


def test_a_patched_model_compiles():
    model = made("llama", num_hidden_layers=1)
    with patch(model, scaling=DynamicNTK(4.0, NATIVE)):
        close(logits(torch.compile(model, backend="aot_eager"), text(40)), logits(model, text(40)))
    torch.compiler.reset()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_dtypes(dtype):
    model = made("llama").to(dtype)
    with patch(model, scaling=NTK(4.0)):
        found = logits(model, text(40))
    assert found.dtype == dtype
    exact = made("llama").to(dtype).double()
    with patch(exact, scaling=NTK(4.0)):
        expected = logits(exact, text(40))
    assert (found - expected).std() < (0.05 if dtype == torch.bfloat16 else 1e-6) * expected.std()


@pytest.mark.parametrize(
    ("kind", "given", "told"),
    [
        ("bloom", {"scaling": NTK(4.0)}, "calls apply_rotary_pos_emb"),
        ("deepseek_v3", {"scaling": NTK(4.0)}, "cannot be changed in this way"),
        ("llama", {"scaling": 4.0}, "is no scaling"),
        ("llama", {"encoding": "alibi"}, "is no encoding"),
        ("llama", {"encoding": Rotary(32)}, "head of width 16"),
        ("phi", {"encoding": Rotary(16)}, "head of width 8 was given"),
        ("llama", {"scaling": NTK(4.0), "encoding": NoPE()}, "scaling or encoding"),
        ("llama", {"scaling": LongRoPE([1.0] * 4, [1.0] * 4, NATIVE)}, "4 numbers for 8 pairs"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_reason(kind, given, told):
    model = made(kind)
    with pytest.raises(RopewalkError, match=told):
        patch(model, **given)
    assert not any("forward" in vars(module) for module in model.modules())


def test_a_config_that_states_another_rotation_is_refused():
    model = made("llama")
    model.config.rope_parameters["rope_theta"] = 5e5
    with pytest.raises(VerificationError, match="does not give its own logits"):
        patch(model, scaling=NTK(4.0))
    assert not any("forward" in vars(module) for module in model.modules())


def test_a_model_without_weights_is_refused():
    model = made("llama").to("meta")
    with pytest.raises(VerificationError, match="no weights yet"):
        patch(model, scaling=NTK(4.0))


def test_transformers_4_is_refused(monkeypatch):
    monkeypatch.setattr("transformers.__version__", "4.57.6")
    with pytest.raises(VerificationError, match="needs transformers 5"):
        patch(made("llama"), scaling=NTK(4.0))
