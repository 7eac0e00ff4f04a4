"""The commands on a tiny model: what they print and what they leave."""

import json
import math

import pytest
from safetensors.torch import load_file

from ropewalk import Llama3, from_config
from ropewalk.extend.methods import DEFAULT


@pytest.fixture
def extended(ropewalk, tiny, prose, tmp_path):
    outcome = ropewalk("extend", tiny, "--to", 128, "--text", prose, "--out", tmp_path / "out",
                       "--methods", "yarn,llama3", "--documents", 3, "--trials", 2)  # fmt: skip
    assert outcome.code == 0, outcome.err
    return tmp_path / "out", outcome


def test_extend_leaves_a_checkpoint_and_a_report(extended, tiny):
    out, outcome = extended
    report = json.loads((out / "report.json").read_text())
    assert [m["method"] for m in report["methods"]] == ["crop", "none", "yarn", "llama3"]
    assert report["chosen"] in ("yarn", "llama3")
    assert f"{report['chosen']} (chosen)" in outcome.out
    assert "Read by transformers 5, transformers 4.57, vLLM, SGLang" in outcome.out
    assert f"ropewalk recipe {out}" in outcome.out
    assert report["chosen"] in (out / "report.html").read_text()
    spec = from_config(out)
    assert (spec.native_length, spec.max_length) == (64, 128)
    assert load_file(out / "model.safetensors").keys() == load_file(tiny / "model.safetensors").keys()
    assert report["verified"]["frequencies_bit_equal"]


def test_the_report_holds_the_contract(extended):
    report = json.loads((extended[0] / "report.json").read_text())
    assert set(report) >= {
        "schema_version", "native_length", "target_length", "tolerance", "methods", "chosen", "verified", "readers",
        "protocol", "versions",
    }  # fmt: skip
    for method in report["methods"]:
        assert set(method) >= {"method", "buckets", "holds_to", "reads_to", "usable_length", "short_cost"}
        costs = method["short_cost_by_length"]
        assert [each["length"] for each in costs] == [8, 16, 32, 64]
        assert costs[-1]["cost"] == method["short_cost"]
        edges = [bucket["start"] for bucket in method["buckets"]] + [method["buckets"][-1]["end"]]
        assert edges == list(range(0, 129, 8))
        assert sum(bucket["tokens"] for bucket in method["buckets"]) == 3 * 127
        assert all(bucket["perplexity"] == pytest.approx(math.exp(bucket["nll"])) for bucket in method["buckets"])
    crop = report["methods"][0]
    assert all(bucket["excess"] == 0 for bucket in crop["buckets"])
    assert report["protocol"]["sources"] == ["prose.txt@0", "prose.txt@1152", "prose.txt@2304"]


def test_extend_json_is_the_report(ropewalk, tiny, prose, tmp_path):
    outcome = ropewalk("extend", tiny, "--to", 128, "--text", prose, "--out", tmp_path / "out",
                       "--methods", "llama3", "--documents", 2, "--trials", 0, "--json")  # fmt: skip
    printed, written = json.loads(outcome.out), json.loads((tmp_path / "out/report.json").read_text())
    assert printed == written
    assert printed["chosen"] == "llama3"
    assert from_config(tmp_path / "out").scaling == Llama3(2.0, 64)
    assert all(method["reads_to"] is None and method["reading"] == [] for method in printed["methods"])


def test_no_method_within_the_tolerance_is_a_finding(ropewalk, tiny, prose, tmp_path, monkeypatch):
    monkeypatch.setattr("ropewalk.extend.run.choose", lambda plan, measurement: None)
    outcome = ropewalk("extend", tiny, "--to", 128, "--text", prose, "--out", tmp_path / "out",
                       "--methods", "linear", "--documents", 2, "--trials", 0)  # fmt: skip
    assert outcome.code == 1
    assert "no checkpoint was written" in " ".join(outcome.out.split())
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["report.html", "report.json", "report.md"]


@pytest.mark.parametrize("method", ["none", "crop", "mrrope", "dynamic", "yarn-dynamic", "yarn-paper"])
def test_measure(ropewalk, tiny, prose, method):
    outcome = ropewalk("measure", tiny, "--text", prose, "--length", 128, "--method", method,
                       "--documents", 2, "--trials", 1, "--json")  # fmt: skip
    assert outcome.code == 0, outcome.err
    result = json.loads(outcome.out)
    assert result["method"] == method
    assert set(result) >= {"protocol", "buckets", "holds_to", "reads_to", "usable_length", "short_cost", "tolerance"}
    table = ropewalk("measure", tiny, "--text", prose, "--length", 128, "--method", method, "--documents", 2)
    assert method in table.out


def test_measure_probe(ropewalk, tiny, prose):
    arguments = ["measure", tiny, "--text", prose, "--length", 128, "--documents", 2, "--probe", "--method"]
    printed = json.loads(ropewalk(*arguments, "yarn", "--json").out)
    assert [row["method"] for row in printed["probe"]["methods"]] == ["none", "yarn"]
    assert [part["end"] for part in printed["probe"]["methods"][1]["parts"]] == [104, 112, 120, 128]
    assert "yarn" in ropewalk(*arguments, "yarn").out
    refused = ropewalk(*arguments, "crop")
    assert refused.code == 2
    assert "nothing to probe" in refused.err


def test_extend_quick(ropewalk, tiny, prose, tmp_path):
    outcome = ropewalk("extend", tiny, "--to", 128, "--text", prose, "--out", tmp_path / "out",
                       "--methods", "yarn,llama3", "--documents", 3, "--quick")  # fmt: skip
    assert outcome.code == 0, outcome.err
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["quick"]
    assert f"Confirm it with full passes: {report['confirm']}" in outcome.out
    assert from_config(tmp_path / "out").max_length == 128
    refused = ropewalk("plot", "curves", tmp_path / "out/report.json", "--out", tmp_path / "curves.png")
    assert refused.code == 2
    assert "a quick report, which has no curves" in refused.err


@pytest.mark.parametrize("method", DEFAULT)
def test_an_extended_checkpoint_measures_as_it_did_when_it_was_chosen(ropewalk, tiny, prose, tmp_path, method):
    options = ["--text", prose, "--documents", 3, "--trials", 0, "--json"]
    report = json.loads(
        ropewalk("extend", tiny, "--to", 128, "--out", tmp_path / "out", "--methods", method, *options).out
    )
    chosen = report["methods"][-1]
    assert chosen["method"] == report["chosen"] == method
    again = json.loads(ropewalk("measure", tmp_path / "out", "--length", 128, *options).out)
    for ours, theirs in zip(again["buckets"], chosen["buckets"], strict=True):
        assert ours["nll"] == pytest.approx(theirs["nll"], abs=1e-6)
    for command in (
        ["extend", "--to", 256, "--out", tmp_path / "twice"],
        ["measure", "--length", 256, "--method", "ntk"],
    ):
        refused = ropewalk(command[0], tmp_path / "out", *command[1:], *options)
        assert refused.code == 2
        assert "it is extended already, from 64 to 128 tokens" in refused.err


def test_a_temperature_is_written_and_verified(ropewalk, tiny, prose, tmp_path):
    outcome = ropewalk("extend", tiny, "--to", 128, "--text", prose, "--out", tmp_path / "out", "--methods", "llama3",
                       "--documents", 2, "--trials", 0, "--temperature", "yarn", "--json")  # fmt: skip
    report = json.loads(outcome.out)
    factor = 1 + 0.1 * math.log(2)
    assert report["chosen"] == "llama3"
    assert report["methods"][-1]["scaling"] == {
        "name": "Tempered", "scaling": {"name": "Llama3", **vars(Llama3(2.0, 64))}, "attention_factor": factor,
    }  # fmt: skip
    assert report["methods"][-1]["attention_factor"] == report["verified"]["attention_factor"] == factor
    assert from_config(tmp_path / "out").native_length == 64
    refused = ropewalk(
        "measure", tiny, "--length", 128, "--text", prose, "--method", "dynamic", "--temperature", "none"
    )
    assert refused.code == 2
    assert "cannot be given to 'dynamic'" in " ".join(refused.err.split())


def test_inspect(ropewalk, tiny):
    content = json.loads(ropewalk("inspect", tiny, "--to", 128, "--json").out)
    assert content["native_length"] == 64
    assert len(content["layers"]) == 2
    assert content["layers"][0] == {
        "layer": 0, "encoding": "rotary", "head_dim": 16, "rotary_dim": 16, "layout": "half", "base": 100.0,
        "scaling": None, "attention_factor": 1.0, "window": None, "type": None, "partial": "whole",
        "softmax_factor": 1.0, "axes": None, "chunk": None,
    }  # fmt: skip
    for index, pair in enumerate(content["pairs"]):
        assert pair["wavelength"] == pytest.approx(2 * math.pi * 100 ** (2 * index / 16))
        assert pair["turns"] == pytest.approx(64 / pair["wavelength"])
        assert pair["unseen"] == (pair["wavelength"] > 64)
    assert "native length 64" in ropewalk("inspect", tiny).out


def test_inspect_finds_what_is_wrong(ropewalk, tmp_path):
    """A finding is an exit status of its own; one that stops the reading is a finding all the same."""
    plain = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2,
             "max_position_embeddings": 4096, "rope_theta": 10000.0}  # fmt: skip
    for change, code, status in (
        ({}, None, 0),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, "base-contradicted", 1),
        ({"partial_rotary_factor": 0.5}, "share-ignored", 1),
        ({"model_type": "never-heard-of"}, "model-type-unknown", 1),
    ):
        file = tmp_path / "config.json"
        file.write_text(json.dumps(plain | change))
        outcome = ropewalk("inspect", file, "--json")
        found = json.loads(outcome.out)["findings"]
        assert ([finding["code"] for finding in found], outcome.code) == ([code] if code else [], status)
        shown = ropewalk("inspect", file)
        assert (code or "no findings") in shown.out
        assert shown.code == status


def test_inspect_reads_presets_parts_and_the_local_cache(ropewalk, tmp_path, monkeypatch):
    content = json.loads(ropewalk("inspect", "llama-3.1-8b", "--json").out)
    assert (content["native_length"], content["max_length"], content["layers"][0]["scaling"]) == (
        8192,
        131072,
        "Llama3",
    )
    snapshot = tmp_path / "hub/models--someone--tower/snapshots/abc"
    snapshot.mkdir(parents=True)
    (tmp_path / "hub/models--someone--tower/refs").mkdir()
    (tmp_path / "hub/models--someone--tower/refs/main").write_text("abc")
    vision = {"depth": 2, "num_heads": 4, "embed_dim": 64, "hidden_size": 128}
    (snapshot / "config.json").write_text(json.dumps({"model_type": "qwen2_vl", "vision_config": vision}))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    layers = json.loads(ropewalk("inspect", "someone/tower", "--part", "vision_config", "--json").out)["layers"]
    assert [(layer["encoding"], layer["head_dim"], layer["axes"]) for layer in layers] == [("axial", 16, 2)] * 2
    assert "no such file, preset or cached model" in ropewalk("inspect", "someone/else").err


def test_inspect_fits_a_screen(ropewalk):
    for name in ("llama-3.1-8b", "gemma-4", "phi-3.5-mini", "bert", "llama-4-scout", "deepseek-v3"):
        shown = ropewalk("inspect", name, "--to", 4096).out
        assert len(shown.splitlines()) <= 40, name


def test_models(ropewalk):
    shown = " ".join(ropewalk("models").out.split())
    assert "not YaRN" in shown
    assert "Press, Smith and Lewis" in shown
    listed = json.loads(ropewalk("models", "--json").out)["models"]
    assert len(listed) >= 43
    assert all(entry["sources"] and entry["encoding"] for entry in listed)
    assert next(entry for entry in listed if entry["name"] == "claude")["encoding"] == "undisclosed"


def test_inspect_counts_unseen_angles_after_the_scaling(ropewalk, extended):
    """YaRN and Llama 3's bands keep every slow pair within the angles of training up to their length, not past it."""
    out, _ = extended
    within, past = (json.loads(ropewalk("inspect", out, "--to", n, "--json").out)["pairs"] for n in (128, 256))
    assert not any(pair["unseen"] for pair in within)
    assert any(pair["unseen"] for pair in past)


def test_plots(ropewalk, extended, tiny, tmp_path):
    out, _ = extended
    for arguments in (["grid"], ["spectrum", tiny, "--to", 256], ["curves", out / "report.json"]):
        for suffix, magic in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
            file = tmp_path / f"{arguments[0]}{suffix}"
            outcome = ropewalk("plot", *arguments, "--out", file)
            assert outcome.code == 0, outcome.err
            assert file.read_bytes().startswith(magic)


def test_help_has_an_example(ropewalk):
    for command in (
        ["inspect"],
        ["models"],
        ["measure"],
        ["extend"],
        ["plot", "grid"],
        ["plot", "spectrum"],
        ["plot", "curves"],
    ):
        outcome = ropewalk(*command, "--help")
        assert outcome.code == 0
        assert "Example: ropewalk" in outcome.out


def test_version(ropewalk):
    from ropewalk import __version__

    assert ropewalk("--version").out.strip() == f"ropewalk {__version__}"


def test_recipe_says_what_to_run_on_what_extend_wrote(ropewalk, extended, tmp_path):
    out, report = extended[0], json.loads((extended[0] / "report.json").read_text())
    outcome = ropewalk("recipe", out, "--json")
    assert outcome.code == 0, outcome.err
    printed = json.loads(outcome.out)
    assert (printed["model"], printed["native_length"], printed["max_length"]) == (str(out), 64, 128)
    assert printed["extended"] is True
    engines = [recipe["engine"] for recipe in printed["recipes"]]
    assert engines == ["transformers", "transformers-4", "vllm", "sglang", "llama.cpp", "megatron"]
    named = json.loads(json.dumps(printed["recipes"]).replace(str(out), "DIR"))
    assert named == report["recipes"]  # what the report gave to paste, under the folder's own name

    table = ropewalk("recipe", out)
    for recipe in printed["recipes"]:
        assert f"{recipe['engine']} {recipe['status']}" in table.out
        assert (recipe["text"].strip() or recipe["reason"]) in table.out
        assert "".join(recipe["source"].split()) in "".join(table.out.split())


def test_recipe_for_one_engine(ropewalk, tiny, extended):
    alone = ropewalk("recipe", extended[0], "--for", "vllm")
    assert alone.code == 0
    assert f"vllm serve {extended[0]} --max-model-len 128" in alone.out
    assert "sglang" not in alone.out
    refused = ropewalk("recipe", extended[0], "--for", "megatron")
    assert refused.code == 1
    assert "megatron refused" in refused.out
    unknown = ropewalk("recipe", extended[0], "--for", "llamacpp")
    assert (unknown.code, unknown.out) == (2, "")
    assert "unknown engine 'llamacpp'; did you mean 'llama.cpp'?" in unknown.err
    assert "nothing is needed but its length" in ropewalk("recipe", tiny).out
    preset = ropewalk("recipe", "llama-3.1-8b", "--for", "vllm")
    assert "vllm serve DIR --max-model-len 131072" in preset.out
