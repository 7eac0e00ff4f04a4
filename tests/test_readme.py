"""Every command of the README is run, and what the main job does to the model that ships is what the README says."""

import contextlib
import functools
import io
import json
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import torch

from ropewalk import from_config
from ropewalk.checkpoints.load import SHIPPED, load
from ropewalk.checkpoints.patch import scaled
from ropewalk.checkpoints.tokenizer import Tokenizer
from ropewalk.extend import scaling_for
from ropewalk.measure import LanguageModel, full_curve, gapped_loss

NATIVE, TARGET = 256, 1024
ROOT = Path(__file__).parents[1]
README, KOREAN = ROOT / "README.md", ROOT / "README.ko.md"
ROPEWALK = str(Path(sys.executable).parent / "ropewalk")


def blocks(language: str) -> list[str]:
    """The fenced blocks of the README in one language."""
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


def commands(program: str) -> list[list[str]]:
    """The arguments of each call of a program in the README's shell blocks, comments left out."""
    lines = [shlex.split(line, comments=True) for block in blocks("sh") for line in block.splitlines()]
    return [words[1:] for words in lines if words[:1] == [program]]


@pytest.fixture(scope="module")
def walked(tmp_path_factory) -> Path:
    """A folder in which every `ropewalk` command of the README was run, in its order."""
    folder = tmp_path_factory.mktemp("walked")
    for arguments in commands("ropewalk"):
        if arguments == ["explore"]:
            visit(folder)
        else:
            subprocess.run([ROPEWALK, *arguments], cwd=folder, check=True)
    return folder


def visit(folder: Path) -> None:
    """Start the local page, read it, and stop it as Ctrl-C does."""
    command = [ROPEWALK, "explore", "--no-browser", "--port", "0"]
    heard = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # who runs the tests may ignore Ctrl-C
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, preexec_fn=heard) as started:
        try:
            with urllib.request.urlopen(started.stdout.readline().split()[0]) as page:
                assert "ropewalk explore" in page.read().decode()
            started.send_signal(signal.SIGINT)
            assert started.wait(30) == 130
        finally:
            started.kill()


@pytest.fixture(scope="module")
def demo(walked) -> Path:
    return walked / "demo"


@pytest.fixture(scope="module")
def report(demo) -> dict:
    return json.loads((demo / "report.json").read_text())


def method(report: dict, name: str) -> dict:
    return next(m for m in report["methods"] if m["method"] == name)


def test_the_readme_runs_the_main_job(walked):
    assert ["extend", "--to", str(TARGET), "--out", "demo"] in commands("ropewalk")
    assert {"config.json", "model.safetensors", "report.html", "report.json"} <= {
        f.name for f in (walked / "demo").iterdir()
    }


def test_its_make_targets_exist():
    assert ["demo"] in commands("make")
    for arguments in commands("make"):
        subprocess.run(["make", "--dry-run", *arguments], cwd=ROOT, check=True, capture_output=True)


def test_its_examples_print_what_they_show():
    for example, shown in zip(blocks("python"), blocks("text"), strict=True):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(example, "README.md", "exec"), {})
        assert printed.getvalue() == shown


def test_korean_readers_get_the_same_commands_examples_and_figures():
    english, korean = README.read_text(), KOREAN.read_text()
    fences = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
    told = [re.sub(r" *#.*", "", block) for language, block in fences.findall(korean) if language == "sh"]
    assert told == [re.sub(r" *#.*", "", block) for language, block in fences.findall(english) if language == "sh"]
    for language, block in fences.findall(korean):
        assert language == "sh" or f"```{language}\n{block}```" in english
    rows = re.findall(r"^\| .*\d.*\|$", korean, re.MULTILINE)
    assert len(rows) > 20
    assert all(row in english for row in rows)
    links = re.compile(r"\]\(([^)]+)\)")
    assert set(links.findall(korean)) - {"README.md"} == set(links.findall(english)) - {"README.ko.md"}
    assert english.count("\n## ") == korean.count("\n## ")


def test_its_pictures_exist():
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README.read_text())
    assert pictures
    assert all((ROOT / picture).is_file() for picture in pictures)


def test_its_figures_are_those_of_the_landed_results():
    """Every row of its tables of methods is made from the result file that the table's caption links."""
    text = README.read_text()
    for name in ("extend-shipped-1024.json", "extend-smollm2-135m-16384.json"):
        path = f"benchmarks/results/{name}"
        assert f"({path})" in text
        for m in json.loads((ROOT / path).read_text())["methods"]:
            if m["holds_to"]:
                reads = "–" if m["reads_to"] is None else f"{m['reads_to']:,}"
                assert f"| {m['method']} | {m['holds_to']['value']:,} | {reads} | {m['short_cost']:+.3f} |" in text


def test_its_comparison_is_that_of_the_landed_result():
    text, path = README.read_text(), "benchmarks/results/comparison-plays.json"
    assert f"({path})" in text
    for one in json.loads((ROOT / path).read_text())["encodings"]:
        bits = {entry["length"]: f"{entry['last_quarter']['value']:.2f}" for entry in one["bits"]}
        row = f"| {one['name']} | {bits[64]} | {bits[128]} | {bits[1024]} | {one['holds_to']['value']:,} |"
        assert (row in text) != (":" in one["name"])


def test_the_shipped_files_keep_their_size():
    assert (SHIPPED / "model.safetensors").stat().st_size <= 8_000_000
    assert sum(file.stat().st_size for file in SHIPPED.glob("heldout-*.txt")) < 300_000
    spec = from_config(SHIPPED)
    assert (spec.model_type, spec.native_length, spec.layers[0].base) == ("llama", NATIVE, 377.0)


def test_unscaled_it_reads_its_native_length_and_breaks_past_it(report):
    none = method(report, "none")
    assert report["protocol"]["reading"]["measurable"]
    within = {reading["distance"]: reading["gain"] for reading in none["reading"] if reading["context"] <= NATIVE}
    assert max(within) >= 3 * NATIVE // 4
    assert min(within.values()) > 1.0
    assert none["holds_to"]["value"] <= 1.5 * NATIVE


def test_the_chosen_method_holds_and_reads_farther(report):
    chosen = method(report, report["chosen"])
    assert chosen["holds_to"]["value"] >= 2 * NATIVE
    assert chosen["short_cost"] <= report["tolerance"]
    assert chosen["reads_to"] >= 2 * NATIVE
    assert chosen["usable_length"] == max(m["usable_length"] for m in report["methods"] if m["can_be_chosen"])


def test_the_checkpoint_loads_in_transformers_as_promised(demo, report):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(demo), AutoTokenizer.from_pretrained(demo)
    scaling = scaling_for(report["chosen"], TARGET / NATIVE, NATIVE)
    want = from_config(SHIPPED).extended(scaling, TARGET).layers[0].rotary(numerics="float32").frequencies(TARGET)
    torch.testing.assert_close(model.model.rotary_emb.inv_freq, want.inv_freq, rtol=2e-7, atol=0)
    assert model.model.rotary_emb.attention_scaling == pytest.approx(want.attention_factor, abs=1e-9)
    assert model.config.max_position_embeddings == TARGET
    words = tokenizer("To be, or not to ", return_tensors="pt")
    assert tokenizer.decode(model.generate(**words, max_new_tokens=2, do_sample=False)[0]).startswith("To be, or not")


def test_the_gapped_probe_ranks_methods_as_full_passes_do():
    checkpoint = load(SHIPPED)
    model = LanguageModel(checkpoint.hidden, checkpoint.head)
    tokens = (
        Tokenizer.load(SHIPPED).encode((SHIPPED / "heldout-macbeth.txt").read_text())[: 24 * TARGET].reshape(24, TARGET)
    )
    gapped, full = [], []
    for name in (None, "linear", "ntk", "yarn", "llama3", "mrrope"):
        scaling = scaling_for(name, TARGET / NATIVE, NATIVE) if name else None
        frequencies = checkpoint.spec.extended(scaling, TARGET).layers[0].rotary().frequencies(TARGET)
        with scaled(checkpoint.model, frequencies):
            gapped.append(gapped_loss(model, tokens[:, -NATIVE:], TARGET, head=NATIVE // 4))
            full.append(full_curve(model, tokens, (0, TARGET - NATIVE // 2, TARGET)).means()[-1])
    ranks = [np.argsort(np.argsort(values)) for values in (gapped, full)]
    assert np.corrcoef(*ranks)[0, 1] > 0.8, (gapped, full)
