"""Writing, reloading and verifying: what was planned is what transformers computes."""

import json
import os
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from ropewalk import NTK, Linear, Llama3, LongRoPE, MrRoPE, NTKCritical, RopewalkError, YaRN
from ropewalk._errors import VerificationError
from ropewalk.checkpoints.load import load
from ropewalk.checkpoints.patch import read_frequencies, scaled
from ropewalk.checkpoints.verify import verify
from ropewalk.checkpoints.write import whole_folder, write_checkpoint, write_json
from ropewalk.functional import inv_freq
from ropewalk.scaling import Scaled, Tempered

BIT_EQUAL = [
    NTK(4),
    NTKCritical(4, 64),
    Linear(4),
    YaRN(4, 64),
    YaRN(4, 64, beta_fast=7.27, truncate=False),
    Llama3(4, 64),
]
BY_FACTORS = [
    YaRN(4, 64, ramp="paper"),
    MrRoPE(4, 64),
    *(Tempered(scaling, 1.15) for scaling in (Linear(4), NTK(4), NTKCritical(4, 64), Llama3(4, 64), MrRoPE(4, 64))),
    Tempered(YaRN(4, 64), 1.0),
    LongRoPE([1.0] * 8, [1.0, 1.1, 1.5, 2, 3, 4, 4, 4], 64, factor=4),
]


@pytest.fixture(scope="module")
def checkpoint(tiny):
    return load(tiny)


@pytest.mark.parametrize(
    "scaling",
    BIT_EQUAL + BY_FACTORS,
    ids=lambda s: f"{type(s).__name__}-{getattr(s, 'ramp', '')}{type(getattr(s, 'scaling', '')).__name__}",
)
def test_reloads_as_planned(checkpoint, scaling, tmp_path):
    planned, out = checkpoint.spec.extended(scaling, 256), tmp_path / "out"
    with whole_folder(out) as folder:
        write_checkpoint(checkpoint, planned, folder)
        record = verify(folder, checkpoint, planned)
    assert record["frequencies_bit_equal"] or scaling in BY_FACTORS
    assert record["frequencies_max_relative_error"] <= (0 if scaling in BIT_EQUAL else 2e-7)
    assert record["max_position_embeddings"] == 256
    for length in (1, 64, 65, 256):
        want = planned.layers[0].rotary(numerics="float32").frequencies(length)
        (got,) = read_frequencies(load(out).model, length)
        torch.testing.assert_close(got.inv_freq, want.inv_freq, rtol=2e-7, atol=0)
        assert got.attention_factor == want.attention_factor


def test_weights_are_the_same_file(checkpoint, tmp_path):
    with whole_folder(tmp_path / "out") as folder:
        write_checkpoint(checkpoint, checkpoint.spec.extended(Linear(4), 256), folder)
    assert os.path.samefile(tmp_path / "out/model.safetensors", checkpoint.path / "model.safetensors")


def test_verify_sees_a_scaling_that_is_not_read(checkpoint, tmp_path):
    planned = checkpoint.spec.extended(YaRN(4, 64), 256)
    folder = tmp_path / "out"
    folder.mkdir()
    write_checkpoint(checkpoint, planned, folder)
    config = json.loads((folder / "config.json").read_text())
    for broken in (
        {**config, "rope_scaling": None, "rope_parameters": {"rope_type": "default", "rope_theta": 100.0}},
        {**config, "rope_theta": 101.0, "rope_parameters": {**config["rope_parameters"], "rope_theta": 101.0}},
    ):
        (folder / "config.json").write_text(json.dumps(broken))
        with pytest.raises(VerificationError):
            verify(folder, checkpoint, planned)


def test_verify_sees_frequencies_that_are_no_numbers_and_a_length_that_was_not_raised(
    checkpoint, tmp_path, monkeypatch
):
    planned, folder = checkpoint.spec.extended(Linear(4), 256), tmp_path / "out"
    folder.mkdir()
    write_checkpoint(checkpoint, planned, folder)
    config = json.loads((folder / "config.json").read_text())
    write_json(folder / "config.json", {**config, "max_position_embeddings": 128})
    with pytest.raises(VerificationError, match="claims 128 tokens, not the 256 planned"):
        verify(folder, checkpoint, planned)
    write_json(folder / "config.json", config)
    monkeypatch.setattr(
        "ropewalk.checkpoints.verify.read_frequencies", lambda *_: [Scaled(torch.full((8,), torch.nan), 1.0)]
    )
    with pytest.raises(VerificationError, match="differ from the plan by up to nan"):
        verify(folder, checkpoint, planned)


def test_verify_sees_weights_that_changed_on_the_way(checkpoint, tmp_path):
    planned, folder = checkpoint.spec.extended(Linear(4), 256), tmp_path / "out"
    folder.mkdir()
    write_checkpoint(checkpoint, planned, folder)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    save_file({k: 1.01 * v for k, v in weights.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(VerificationError, match="away from those that were measured"):
        verify(folder, checkpoint, planned)


def test_limits_beside_the_config_are_raised(checkpoint, tmp_path):
    """A tokenizer that cuts at the native length would keep the extension from ever being seen."""
    source, before = tmp_path / "source", {"model_max_length": 64, "x": 1}
    shutil.copytree(checkpoint.path, source)
    write_json(
        source / "tokenizer_config.json", {**json.loads((source / "tokenizer_config.json").read_text()), **before}
    )
    write_json(source / "generation_config.json", {"max_length": 20, "eos_token_id": 257})
    with whole_folder(tmp_path / "out") as folder:
        write_checkpoint(load(source), checkpoint.spec.extended(Linear(4), 256), folder)
    written = [
        json.loads((tmp_path / "out" / name).read_text())
        for name in ("tokenizer_config.json", "generation_config.json")
    ]
    assert (written[0]["model_max_length"], written[0]["x"], written[1]["max_length"]) == (256, 1, 256)
    assert json.loads((source / "tokenizer_config.json").read_text())["model_max_length"] == 64


def test_scaled_changes_the_running_model_and_puts_it_back(checkpoint):
    tokens = torch.arange(32)[None]

    def logits() -> torch.Tensor:
        with torch.inference_mode():
            return checkpoint.model(input_ids=tokens).logits

    before, frequencies = logits(), checkpoint.spec.extended(YaRN(4, 64), 256).layers[0].rotary().frequencies(256)
    with scaled(checkpoint.model, frequencies):
        (inside,) = read_frequencies(checkpoint.model, 256)
        assert torch.equal(inside.inv_freq, frequencies.inv_freq.float())
        assert inside.attention_factor == frequencies.attention_factor
        assert not torch.equal(logits(), before)
    assert torch.equal(logits(), before)


def test_scaled_refuses_a_model_that_does_not_read_its_frequencies(checkpoint, monkeypatch):
    """A model that computed its own tables elsewhere would be measured unscaled, in silence."""
    rotary = checkpoint.model.model.rotary_emb
    cos, sin = rotary(torch.zeros(1), torch.arange(300)[None])
    monkeypatch.setattr(rotary, "forward", lambda x, position_ids: (cos[:, position_ids[0]], sin[:, position_ids[0]]))
    frequencies = checkpoint.spec.extended(Linear(4), 256).layers[0].rotary().frequencies(256)
    with pytest.raises(VerificationError, match="logits did not"), scaled(checkpoint.model, frequencies):
        pass


def test_scaled_refuses_another_width(checkpoint):
    narrow = Scaled(inv_freq(8, 100.0), 1.0)
    with (
        pytest.raises(VerificationError, match="8 pairs, the scaling gives 4"),
        scaled(checkpoint.model, narrow),
    ):
        pass


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    def fail():
        with whole_folder(tmp_path / "out") as folder:
            (folder / "half").write_text("x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_over(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(RopewalkError, match="exists already"), whole_folder(tmp_path / "out"):
        pass
    with pytest.raises(RopewalkError, match="no such folder"), whole_folder(tmp_path / "nowhere/out"):
        pass


def test_json_holds_no_nan(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "x.json", {"a": float("nan")})
