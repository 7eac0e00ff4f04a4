"""Methods that change where far tokens stand: measured as the others are, and never written."""

import pytest
import torch

from ropewalk import DualChunk, RopewalkError, SelfExtend, patch
from ropewalk.checkpoints.load import load
from ropewalk.checkpoints.tokenizer import Tokenizer
from ropewalk.extend import extend, method_for, plan
from ropewalk.extend.kept import beside
from ropewalk.extend.run import Watch
from ropewalk.measure import LanguageModel, token_losses
from ropewalk.report.html import render

METHODS = ("yarn", "self-extend", "dual-chunk")


@pytest.fixture(scope="module", autouse=True)
def without_pictures():
    """report.html has tests of its own."""
    with pytest.MonkeyPatch.context() as without:
        without.setattr("ropewalk.extend.run.write_report", lambda report, path: path.write_text("page"))
        yield


@pytest.fixture(scope="module")
def report(tiny, prose, tmp_path_factory):
    out = tmp_path_factory.mktemp("remapped") / "out"
    return extend(plan(tiny, (prose,), 256, METHODS, documents=2, trials=1, tolerance=5.0), out)


def test_they_stand_in_the_report_and_are_not_chosen(report):
    rows = {row["method"]: row for row in report["methods"]}
    assert list(rows) == ["crop", "none", *METHODS]
    assert rows["self-extend"]["scaling"] == {"name": "SelfExtend", "group": 9, "window": 16}
    assert rows["dual-chunk"]["scaling"] == {"name": "DualChunk", "chunk_size": 48, "local_size": 4}
    assert report["chosen"] == "yarn"
    for name in METHODS[1:]:
        assert rows[name]["can_be_chosen"] is False
        assert rows[name]["inv_freq"] == report["inv_freq"]
    assert "self-extend" in render(report)


def test_losses_are_those_of_a_model_that_was_patched(report, tiny, prose):
    """Of tokens past the window, which a model that is as it was reads otherwise."""
    checkpoint, tokens = load(tiny), Tokenizer.load(tiny).encode(prose.read_text())
    starts = [int(source.split("@")[1]) for source in report["protocol"]["sources"]]
    documents = torch.stack([tokens[start : start + 256] for start in starts])
    rope = checkpoint.spec.layers[0].rotary(numerics="float32")
    rows = {row["method"]: row for row in report["methods"]}
    encodings = {
        "self-extend": SelfExtend(rope, group=9, window=16),
        "dual-chunk": DualChunk(rope, chunk_size=48, local_size=4),
    }
    for name, encoding in encodings.items():
        with patch(checkpoint.model, encoding=encoding):
            losses = token_losses(LanguageModel(checkpoint.hidden, checkpoint.head), documents)
        for bucket, plain in zip(rows[name]["buckets"], rows["none"]["buckets"], strict=True):
            within = losses[:, max(1, bucket["start"]) : bucket["start"] + 8]
            assert bucket["nll"] == pytest.approx(within.mean().item(), abs=1e-5)
            assert (bucket["nll"] == plain["nll"]) == (bucket["start"] < (16 if name == "self-extend" else 44))


def test_a_probe_that_is_resumed_reads_beginnings_as_the_model_is(tiny, prose, tmp_path):
    """Where the windows were kept, a beginning is first read for a method that exchanges the attention."""
    made = plan(tiny, (prose,), 256, ("self-extend", "yarn"), documents=1, quick=True, tolerance=5.0)
    whole = extend(made, tmp_path / "whole")
    for count in (2, 5, 9):  # each pass tells twice: windows, short text and end as it is, the same of the two methods
        stopped, steps = tmp_path / str(count), []

        def told(step, steps=steps, count=count):
            steps.append(step)
            if len(steps) == count:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            extend(made, stopped, watch=Watch(progress=told))
        assert beside(stopped).is_dir()
        assert extend(made, stopped, resume=True)["probe"] == whole["probe"]


def test_alone_they_leave_nothing_to_choose_from(tiny, prose, tmp_path):
    with pytest.raises(RopewalkError, match="'self-extend', 'dual-chunk' cannot be written"):
        extend(plan(tiny, (prose,), 256, METHODS[1:]), tmp_path / "out")


def test_a_temperature_is_that_of_the_rotation():
    plain, sharp = (method_for("dual-chunk", 4.0, 4096, one) for one in (None, "yarn"))
    assert plain.options == sharp.options == {"chunk_size": 3072, "local_size": 256}
    assert plain.scaling is None
    found = sharp.scaling.apply(torch.ones(4), base=10_000.0)
    assert torch.equal(found.inv_freq, torch.ones(4))
    assert found.attention_factor == pytest.approx(1.1386294)


def test_what_each_is_by_default():
    """Two thirds of the native length at the target, and the sizes of the authors' code."""
    for native, factor, group in ((4096, 4.0, 9), (8192, 2.0, 5), (256, 4.0, 9), (2048, 32.0, 77)):
        window = native // 4
        assert method_for("self-extend", factor, native).options == {"group": group, "window": window}
        reached, fewer = (window + (factor * native - window) / size for size in (group, group - 1))
        assert 3 * reached <= 2 * native + 1e-6 < 3 * fewer


def test_a_name_that_is_nearly_one_of_theirs():
    with pytest.raises(RopewalkError, match="'self-extended'; did you mean 'self-extend'"):
        method_for("self-extended", 4.0, 4096)
