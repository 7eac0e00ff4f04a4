"""The quick way: what is probed under which frequencies, how it is ranked, and what its report claims."""

import json
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ropewalk import from_config
from ropewalk.checkpoints.load import load
from ropewalk.extend import extend, plan, scaling_for
from ropewalk.extend.plan import Plan
from ropewalk.extend.probing import Probed, Probing, probe_result
from ropewalk.measure import Documents, LanguageModel, gapped_loss
from ropewalk.report.html import render
from ropewalk.report.words import verdict

RECIPE = Path(__file__).parents[2] / "recipes/rank_agreement.py"


@pytest.fixture(scope="module")
def report(tiny, prose, tmp_path_factory):
    out = tmp_path_factory.mktemp("quick") / "out"
    made = extend(plan(tiny, (prose,), 256, ("yarn", "linear", "dynamic"), documents=3, quick=True), out)
    assert made == json.loads((out / "report.json").read_text())
    assert (out / "report.html").read_text() == render(made)
    assert from_config(out).max_length == 256
    return made


def test_it_is_the_gapped_loss_under_the_frequencies_of_the_span(tiny, report, prose):
    """Against the public function, on a model whose frequencies are set here."""
    from ropewalk.checkpoints.patch import scaled
    from ropewalk.checkpoints.tokenizer import Tokenizer

    checkpoint = load(tiny)
    model = LanguageModel(checkpoint.hidden, checkpoint.head)
    tokens = Tokenizer.load(tiny).encode(prose.read_text())
    starts = [int(source.split("@")[1]) for source in report["probe"]["protocol"]["sources"]]
    passages = torch.stack([tokens[start : start + 64] for start in starts])
    plain = gapped_loss(model, passages, 64, head=21)
    rows = {row["method"]: row for row in report["probe"]["methods"]}
    assert [entry["span"] for entry in rows["yarn"]["spans"]] == [64, 160, 256]
    for name in ("yarn", "dynamic"):
        for entry in rows[name]["spans"]:
            length = entry["span"] if name == "dynamic" else 256
            layer = checkpoint.spec.extended(scaling_for(name, 4.0, 64), 256).layers[0]
            with scaled(checkpoint.model, layer.rotary(numerics="float32").frequencies(length)):
                want = gapped_loss(model, passages, entry["span"], head=21)
            assert entry["nll"] == pytest.approx(want, abs=1e-6)
            assert entry["excess"] == pytest.approx(want - plain, abs=1e-6)
    assert rows["none"]["short_nll"] == pytest.approx(plain, abs=1e-6)
    assert rows["dynamic"]["short_cost"] == 0


def test_a_quick_report_claims_no_length(report):
    assert report["quick"] is True
    assert report["probe"]["protocol"]["name"] == "gapped probe"
    assert report["confirm"].startswith("ropewalk extend ")
    assert report["confirm"].endswith(f"--methods {report['chosen']}")
    for method in report["methods"]:
        assert (method["holds_to"], method["reads_to"], method["usable_length"]) == (None, None, None)
        assert method["buckets"] == method["reading"] == []
    assert [m["method"] for m in report["methods"]] == ["none", "yarn", "linear", "dynamic"]
    assert "measures no length" in verdict(report, None)
    assert report["verified"]["frequencies_bit_equal"]


def test_the_confirming_command_names_what_was_given(tiny, prose):
    from ropewalk.checkpoints.load import SHIPPED
    from ropewalk.extend.result import quick_result

    rows = {"protocol": {}, "methods": []}
    own = plan(tiny, (prose,), 128, ("yarn", "ntk"), quick=True)
    assert quick_result(own, rows, "ntk")["confirm"] == (
        f"ropewalk extend {tiny} --text {prose} --to 128 --out DIR --methods ntk"
    )
    shipped = plan(SHIPPED, tuple(sorted(SHIPPED.glob("heldout-*.txt"))), 512, ("yarn", "ntk"), quick=True)
    assert quick_result(shipped, rows, None)["confirm"] == "ropewalk extend --to 512 --out DIR --methods yarn,ntk"


def test_its_page_is_safe_and_says_what_it_is(report):
    page = render({**report, "confirm": "<b>confirm</b>"})
    assert "<b>confirm" not in page
    assert "A quick probe, which measures no length" in page
    assert "Confirm it with full passes" in page
    assert "no checkpoint was written" in render({**report, "chosen": None, "config": None, "verified": None})


SCALINGS = {name: scaling_for(name, 2.0, 64) for name in ("yarn", "ntk", "llama3", "dynamic")}
PLAN = Plan(Path("m"), (), from_config({
    "model_type": "llama", "hidden_size": 128, "num_attention_heads": 2, "num_hidden_layers": 1,
    "max_position_embeddings": 64, "rope_theta": 377.0,
}), 128, SCALINGS, quick=True)  # fmt: skip


def probing(**methods):
    """Each method: what short text costs, and its excess on each of three passages at the one span past native."""
    plain = np.array([1.0, 2.0, 6.0])
    made = [Probed("none", plain, np.stack([plain, plain + 1]))]
    for name, (cost, *excess) in methods.items():
        made.append(Probed(name, plain + cost, np.stack([plain + 50, plain + np.array(excess)])))
    return Probing(Documents(torch.zeros(3, 64), ("a", "b", "c")), (64, 128), tuple(made))


def test_ranks_are_by_the_loss_past_native_and_the_choice_among_what_may_be_written():
    found = probing(
        yarn=(0.0, 0.3, 0.3, 0.3), ntk=(0.2, 0.1, 0.1, 0.1), dynamic=(0, 0, 0, 0), llama3=(0.1, 0.2, 0.2, 0.8)
    )
    rows = {row["method"]: row for row in probe_result(PLAN, found)["methods"]}
    assert {name: row["rank"] for name, row in rows.items()} == {
        "dynamic": 1,
        "ntk": 2,
        "yarn": 3,
        "llama3": 4,
        "none": 5,
    }
    assert found.choose(PLAN) == "yarn"  # dynamic cannot be written, and ntk costs too much
    assert probing(ntk=(0.2, 0, 0, 0), dynamic=(0, 0, 0, 0)).choose(PLAN) is None


def test_errors_are_of_differences_on_the_same_passage():
    """How hard a passage is falls out: 0.2, 0.2 and 0.8 above the best have mean 0.4 and standard error 0.2."""
    found = probing(yarn=(0.0, 0.0, 0.0, 0.0), llama3=(0.1, 0.2, 0.2, 0.8))
    row = probe_result(PLAN, found)["methods"][2]
    assert row["behind_best"] == {"value": pytest.approx(0.4), "stderr": pytest.approx(0.2)}
    assert row["spans"][1]["excess"] == pytest.approx(0.4)
    assert row["spans"][1]["stderr"] == pytest.approx(0.2)
    assert row["short_cost_stderr"] == pytest.approx(0, abs=1e-12)


def test_what_is_not_told_apart_is_said():
    def said(**methods):
        found = probe_result(PLAN, probing(**methods))
        return verdict({"quick": True, "probe": found, "chosen": "yarn", "target_length": 128, "tolerance": 0.1}, None)

    assert said(yarn=(0, 0, 0, 0), ntk=(0, 0.39, 0.4, 0.41)).endswith("on short text.")
    assert said(yarn=(0, 0, 0, 0), ntk=(0, -0.2, 0.2, 0.8)).endswith("Not told apart from it: ntk.")


def test_passages_fit_the_native_length_and_the_documents():
    for native, documents, want in ((8192, 48, (1536, 512, 4)), (256, 48, (256, 85, 24)), (256, 5, (256, 85, 5))):
        spec = from_config({**PLAN.spec.config, "max_position_embeddings": native})
        made = Plan(Path("m"), (), spec, 2 * native, {}, documents=documents)
        assert (made.probe_length, made.probe_head, made.passages) == want


def test_the_agreement_of_ranks():
    module = SimpleNamespace(**runpy.run_path(str(RECIPE)))

    def buckets(last):
        found = ((0, 9.0, 100), (64, 1.0, 3), (72, last, 1))  # start, loss, tokens
        return [{"start": start, "nll": nll, "tokens": tokens} for start, nll, tokens in found]

    lasts = {"crop": 0.0, "a": 1.0, "b": 5.0, "c": 9.0, "d": 13.0}
    full = {"native_length": 64, "methods": [{"method": n, "buckets": buckets(last)} for n, last in lasts.items()]}
    scores = {"a": 1, "b": 3, "c": 2, "d": 4}
    quick = {"probe": {"methods": [{"method": name, "score": score} for name, score in scores.items()]}}
    pairs = list(module.losses(full, quick).values())
    assert pairs == [(1.0, 1), (2.0, 3), (3.0, 2), (4.0, 4)]
    assert module.spearman(pairs) == pytest.approx(1 - 6 * 2 / (4 * 15))  # 1 - 6 sum d^2 / (n (n^2 - 1))
    assert module.kendall(pairs) == pytest.approx((5 - 1) / 6)
    assert "another best two" in module.table(full, quick)
