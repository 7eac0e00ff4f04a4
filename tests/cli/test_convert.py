"""`ropewalk convert` on a tiny model: what it says, what it leaves, and who refuses what it left."""

import json

import pytest
from safetensors.torch import load_file

from ropewalk import from_config


@pytest.fixture
def converted(ropewalk, tiny, tmp_path):
    outcome = ropewalk("convert", tiny, "--layout", "interleaved", "--out", tmp_path / "new")
    assert outcome.code == 0, outcome.err
    return tmp_path / "new", outcome


def test_it_says_what_was_proved_and_who_reads_it_wrong(converted, tiny):
    out, outcome = converted
    said = " ".join(outcome.out.split())
    assert said.startswith(f"llama: half -> interleaved, 4 tensors of 2 layers in {out}")
    assert "(tolerance 1e-05 of the largest)" in said
    assert "logits: within" in said
    assert "config.json says rope_interleave: true" in said
    assert "Others read it wrong, without a word: transformers' own 'llama' code turns half pairs" in said
    assert {file.name for file in out.iterdir()} == {file.name for file in tiny.iterdir()}
    assert load_file(out / "model.safetensors").keys() == load_file(tiny / "model.safetensors").keys()


def test_its_json(ropewalk, tiny, tmp_path):
    outcome = ropewalk("convert", tiny, "--layout", "interleaved", "--out", tmp_path / "new", "--json")
    result = json.loads(outcome.out)
    assert result["schema_version"]
    assert (result["before"], result["after"], result["native"]) == ("half", "interleaved", "half")
    assert max(result["scores_error"], result["logits_error"]) <= result["tolerance"] == 1e-5
    assert result["misread_error"] > 0.01
    assert result["key"] == "rope_interleave: true"


def test_back_again_nothing_is_left_to_say(ropewalk, converted, tiny, tmp_path):
    outcome = ropewalk("convert", converted[0], "--layout", "half", "--out", tmp_path / "back")
    assert outcome.code == 0, outcome.err
    assert "rope_interleave" not in outcome.out
    assert "read it wrong" not in outcome.out
    assert (tmp_path / "back/model.safetensors").read_bytes() == (tiny / "model.safetensors").read_bytes()
    assert json.loads((tmp_path / "back/config.json").read_text()) == json.loads((tiny / "config.json").read_text())


def test_inspect_finds_it_recipe_refuses_it_and_measure_reads_it(ropewalk, converted, tiny, prose):
    out, _ = converted
    inspected = ropewalk("inspect", out)
    assert inspected.code == 1
    assert "error pairing-unread" in inspected.out
    assert "whole head 16 of 16, interleaved" in inspected.out
    assert ropewalk("recipe", out, "--for", "vllm").code == 1
    measured = [
        json.loads(ropewalk("measure", model, "--text", prose, "--length", 128, "--method", "none",
                            "--documents", 1, "--trials", 0, "--json").out)
        for model in (tiny, out)
    ]  # fmt: skip
    losses = [[bucket["nll"] for bucket in one["buckets"]] for one in measured]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


def test_it_is_converted_back_before_it_is_extended(ropewalk, converted, prose, tmp_path):
    outcome = ropewalk("extend", converted[0], "--to", 128, "--text", prose, "--out", tmp_path / "out")
    assert outcome.code == 2
    assert f"first ropewalk convert {converted[0]} --layout half, and extend that" in outcome.err
    assert not (tmp_path / "out").exists()


def test_a_failed_proof_exits_with_1_and_leaves_nothing(ropewalk, tiny, tmp_path, monkeypatch):
    from ropewalk.checkpoints.convert import files

    monkeypatch.setattr(files, "_turn", lambda file, found, to: None)
    outcome = ropewalk("convert", tiny, "--layout", "interleaved", "--out", tmp_path / "new")
    assert outcome.code == 1
    assert "nothing was written" in outcome.err
    assert not list(tmp_path.iterdir())


def test_bad_input_exits_with_2(ropewalk, tiny, tmp_path):
    for arguments, said in (
        ((tiny, "--layout", "half"), "half already"),
        ((tiny, "--layout", "neox"), "'neox' is not one of 'half', 'interleaved'"),
        (("gpt-2", "--layout", "half"), "where a 'gpt2' model keeps its queries and keys is not in the table"),
        (("llama-2-7b", "--layout", "interleaved"), "holds no weights to convert"),
    ):
        outcome = ropewalk("convert", *arguments, "--out", tmp_path / "new")
        assert outcome.code == 2, outcome.err
        assert said in outcome.err
        assert not list(tmp_path.iterdir())


def test_without_a_model_the_shipped_one_is_converted(ropewalk, tmp_path):
    outcome = ropewalk("convert", "--layout", "interleaved", "--out", tmp_path / "new")
    assert outcome.code == 0, outcome.err
    assert from_config(tmp_path / "new").main.layout == "interleaved"
    assert "convert ./Llama" in ropewalk("convert", "--help").out
