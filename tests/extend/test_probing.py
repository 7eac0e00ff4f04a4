"""The quick way: what is probed under which frequencies, how it is ranked, and what its report claims."""

import json
import runpy
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ropewalk import RopewalkError, from_config
from ropewalk.checkpoints.load import load
from ropewalk.checkpoints.tokenizer import Tokenizer
from ropewalk.extend import extend, plan, scaling_for
from ropewalk.extend.measuring import prepare
from ropewalk.extend.plan import Plan
from ropewalk.extend.probing import Probed, Probing, probe, probe_result
from ropewalk.measure import Documents, LanguageModel, token_losses
from ropewalk.report.html import render
from ropewalk.report.words import verdict

RECIPE = Path(__file__).parents[2] / "recipes/rank_agreement.py"


@pytest.fixture(scope="module")
def report(tiny, prose, tmp_path_factory):
    out = tmp_path_factory.mktemp("quick") / "out"
    made = extend(plan(tiny, (prose,), 256, ("yarn", "linear", "dynamic", "self-extend"), documents=3, quick=True), out)
    assert made == json.loads((out / "report.json").read_text())
    assert (out / "report.html").read_text() == render(made)
    assert from_config(out).max_length == 256
    return made


def test_short_text_and_the_end_are_what_the_model_reads_under_each_method(tiny, report, prose):
    """Against the model's own passes: windows of 16 and the one before, masked by hand, then the end by one pass whose
    keys of the beginning are those of the windows, turned from their un-rotated products."""
    probing = report["probe"]
    rows = {row["method"]: row for row in probing["methods"]}
    assert probing["protocol"]["windows"] == 16
    assert probing["protocol"]["end"] == 64
    model, spec = load(tiny).model, from_config(tiny)
    tokens = Tokenizer.load(tiny).encode(prose.read_text())
    starts = [int(source.split("@")[1]) for source in probing["protocol"]["sources"]]
    documents = torch.stack([tokens[start : start + 256] for start in starts])
    for name in ("none", "yarn", "dynamic", "self-extend"):
        scaling = None if name in ("none", "self-extend") else scaling_for(name, 4.0, 64)
        rope = spec.layers[0].rotary() if scaling is None else spec.extended(scaling, 256).layers[0].rotary()
        plain, twin = spec.layers[0].rotary(), Twin(model)
        groups = (9, 16) if name == "self-extend" else None
        windowed, end = zip(*(twin.read(row[None], 16, 64, plain, rope, groups) for row in documents), strict=True)
        assert rows[name]["score"] == pytest.approx(np.mean(end), abs=1e-5)
        assert rows[name]["excess"] == pytest.approx(np.mean(end) - np.mean(windowed), abs=1e-5)
        for part, found in enumerate(rows[name]["parts"]):
            assert found["end"] == 192 + 16 * (part + 1)
    short = token_losses(LanguageModel(load(tiny).hidden, load(tiny).head), documents[:, :64])
    parts = [part.nanmean(1) for part in short.tensor_split(4, dim=1)]
    assert rows["none"]["short_nll"] == pytest.approx(torch.stack(parts).mean().item(), abs=1e-5)
    assert rows["dynamic"]["short_cost"] == 0


class Twin:
    """A Llama written out: attention by explicit masks and un-rotated keys, no cache."""

    def __init__(self, model):
        self.model, self.config = model.model, model.config
        self.head = model.lm_head

    def read(self, tokens, window, last, plain, rope, groups=None):
        """The mean loss of the parts of the end, having seen windows, and having seen all under `rope`."""
        where = torch.arange(tokens.shape[1])
        block = where // window
        near = (where[:, None] >= where) & (block[:, None] - block <= 1)
        states, kept = self.layers(self.model.embed_tokens(tokens), where, near, plain, None)
        first = tokens.shape[1] - last
        end, _ = self.layers(
            self.model.embed_tokens(tokens[:, first:]), where[first:], where[first:, None] >= where, rope, kept, groups
        )
        return self.loss(states[:, first:], tokens[:, first:]), self.loss(end, tokens[:, first:])

    @torch.no_grad()
    def layers(self, x, where, visible, rope, kept, groups=None):
        made, everywhere = [], torch.arange(visible.shape[1])
        for index, layer in enumerate(self.model.layers):
            y, own = layer.input_layernorm(x), layer.self_attn
            q, k, v = (
                p(y).unflatten(-1, (-1, own.head_dim)).transpose(1, 2) for p in (own.q_proj, own.k_proj, own.v_proj)
            )
            if kept is not None:
                k, v = (
                    torch.cat((old[:, :, : len(everywhere) - len(where)], new), 2)
                    for old, new in zip(kept[index], (k, v), strict=True)
                )
            made.append((k, v))
            k, v = (y.repeat_interleave(q.shape[1] // k.shape[1], 1) for y in (k, v))
            logits = self.scores(rope, q, k, where, everywhere)
            if groups is not None:  # Self-Extend: far tokens by the numbers of their groups
                size, near = groups
                far = self.scores(rope, q, k, where // size + near - near // size, everywhere // size)
                logits = torch.where(where[:, None] - everywhere < near, logits, far)
            weights = (logits / own.head_dim**0.5).masked_fill(~visible, -torch.inf).softmax(-1)
            x = x + own.o_proj((weights @ v).transpose(1, 2).flatten(2))
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.model.norm(x), made

    def scores(self, rope, q, k, q_positions, k_positions):
        q, k = rope(q, k, q_positions=q_positions, k_positions=k_positions, length=256)
        return q @ k.mT

    @torch.no_grad()
    def loss(self, states, tokens):
        found = torch.nn.functional.cross_entropy(self.head(states)[0, :-1], tokens[0, 1:], reduction="none")
        parts = torch.cat((torch.tensor([torch.nan]), found)).tensor_split(4)
        return float(np.mean([part.nanmean() for part in parts]))


def test_a_model_whose_own_frequencies_depend_on_the_length_is_refused(prose, tiny, tmp_path):
    model = shutil.copytree(tiny, tmp_path / "tiny")
    config = json.loads((model / "config.json").read_text())
    config["rope_scaling"] = {"rope_type": "dynamic", "factor": 2.0}
    (model / "config.json").write_text(json.dumps(config))
    made = plan(model, (prose,), 256, ("none",), quick=True)
    with pytest.raises(RopewalkError, match="depend on the length"):
        probe(made, *prepare(made))


def test_a_quick_report_claims_no_length(report):
    assert report["quick"] is True
    assert report["confirm"].startswith("ropewalk extend ")
    assert report["confirm"].partition("--methods ")[2].split(",")[0] == report["chosen"]
    for method in report["methods"]:
        assert (method["holds_to"], method["reads_to"], method["usable_length"]) == (None, None, None)
        assert method["buckets"] == method["reading"] == []
    assert [m["method"] for m in report["methods"]] == ["none", "yarn", "linear", "dynamic", "self-extend"]
    assert "measures no length" in verdict(report, None)
    assert report["verified"]["frequencies_bit_equal"]


def test_the_confirming_command_names_what_was_given(tiny, prose, monkeypatch):
    from ropewalk.checkpoints.load import SHIPPED
    from ropewalk.extend import result

    behind = {"ntk": 0.0, "none": 0.01, "yarn": 0.1}

    def rows(error):
        known = [{"method": name, "behind_best": {"value": value, "stderr": error}} for name, value in behind.items()]
        return {"protocol": {}, "methods": known}

    monkeypatch.setattr(result, "probed_method", lambda plan, row: row)
    own = plan(tiny, (prose,), 128, ("yarn", "ntk"), quick=True)
    for error, named in ((0.01, "ntk"), (0.03, "ntk,yarn")):  # with what is not told apart from the chosen
        assert result.quick_result(own, rows(error), "ntk")["confirm"] == (
            f"ropewalk extend {tiny} --text {prose} --to 128 --out DIR --methods {named}"
        )
    shipped = plan(SHIPPED, tuple(sorted(SHIPPED.glob("heldout-*.txt"))), 512, ("yarn", "ntk"), quick=True)
    assert (
        result.quick_result(shipped, rows(0.01), None)["confirm"]
        == "ropewalk extend --to 512 --out DIR --methods yarn,ntk"
    )


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
    """Each method: what short text costs, and the excess of its end in each of three parts of one text."""
    plain = np.array([[1.0, 2.0, 6.0]])
    made = [Probed("none", plain, plain + 1)]
    for name, (cost, *excess) in methods.items():
        made.append(Probed(name, plain + cost, plain + np.array([excess])))
    return Probing(Documents(torch.zeros(1, 128), ("a",)), plain, tuple(made))


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


def test_errors_are_of_differences_on_the_same_part():
    """How hard a part is falls out: 0.2, 0.2 and 0.8 above the best have mean 0.4 and standard error 0.2."""
    found = probing(yarn=(0.0, 0.0, 0.0, 0.0), llama3=(0.1, 0.2, 0.2, 0.8))
    row = probe_result(PLAN, found)["methods"][2]
    assert row["behind_best"] == {"value": pytest.approx(0.4), "stderr": pytest.approx(0.2)}
    assert row["excess"] == pytest.approx(0.4)
    assert row["excess_stderr"] == pytest.approx(0.2)
    assert row["short_cost_stderr"] == pytest.approx(0, abs=1e-12)


def test_what_is_not_told_apart_is_said():
    def said(**methods):
        found = probe_result(PLAN, probing(**methods))
        return verdict({"quick": True, "probe": found, "chosen": "yarn", "target_length": 128, "tolerance": 0.1}, None)

    assert said(yarn=(0, 0, 0, 0), ntk=(0, 0.39, 0.4, 0.41)).endswith("on short text.")
    assert said(yarn=(0, 0, 0, 0), ntk=(0, -0.2, 0.2, 0.8)).endswith("Not told apart from it: ntk.")


def test_what_is_read_fits_the_native_length_and_the_budget():
    for native, target, documents, want in (
        (8192, 16384, 48, (1536, 4096, 2048, 2)),
        (8192, 16384, 1, (1536, 4096, 2048, 1)),
        (256, 1024, 48, (256, 256, 64, 32)),
        (256, 1024, 5, (256, 256, 64, 5)),
        (8192, 131072, 9, (1536, 8192, 2048, 1)),
    ):
        spec = from_config({**PLAN.spec.config, "max_position_embeddings": native})
        made = Plan(Path("m"), (), spec, target, {}, documents=documents)
        assert (made.probe_short, made.probe_end, made.probe_window, made.probed) == want


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
