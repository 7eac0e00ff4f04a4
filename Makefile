# Every target makes .venv itself when it is missing: python3 with pip is all that a machine needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
OUT ?= demo
REAL := .cache/real
READERS := .cache/readers

.PHONY: help bench bench-gpu bench-memory bench-model compare compare-quick demo demo-real test test-4.57 test-kernels test-browser test-peers test-triton lint figures train clean

help:
	@echo "make demo       extend the model that ships from 256 to 1024 tokens; writes $(OUT)/"
	@echo "make test       all tests that need no network"
	@echo "make lint       style and types"
	@echo "make figures    the pictures of the README and docs"
	@echo "make demo-real  fetch SmolLM2-135M and two plays, extend it to 16384 by five methods (over an hour; again to resume)"
	@echo "make compare-quick  four encodings trained alike, one seed each (a few minutes); writes comparison-quick/"
	@echo "make compare    every encoding and two of x-transformers, three seeds each (under 90 minutes); again to resume"
	@echo "make bench      rotation and attention against their limits and other people's code (five minutes, nothing else running)"
	@echo "make bench-gpu  the rotation's Triton kernel against a copy and other people's kernels, on a CUDA device"
	@echo "make bench-model  SmolLM2-135M before and after rw.patch"
	@echo "make bench-memory  peak memory of attention at 8192 and 32768 tokens (ten minutes)"
	@echo "make test-4.57  what we write, in transformers 4.57 as in 5: frequencies and logits; in an environment of its own"
	@echo "make test-kernels  all of make test with the kernels and without them, and the kernels' own under the address sanitizer"
	@echo "make test-triton  the GPU's kernel in Triton's interpreter, in an environment of its own"
	@echo "make test-browser  the report's page and the explorer's in Chromium, where one is installed"
	@echo "make test-peers  torchtune's rotary, in an environment of its own"
	@echo "make train      train the model that ships anew (half an hour)"

$(STAMP): pyproject.toml constraints.txt hatch_build.py $(wildcard src/ropewalk/kernels/csrc/*)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP)
	rm -rf $(OUT)
	$(BIN)/ropewalk extend --to 1024 --out $(OUT)

test: $(STAMP)
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow"

test-browser: $(STAMP)
	$(BIN)/pytest tests/report/test_browser.py tests/explorer/test_browser.py

test-kernels: $(STAMP)
	ROPEWALK_KERNELS=off $(BIN)/pytest -n 2 --dist loadfile -m "not slow"
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow"
	$(BIN)/python recipes/sanitize.py

lint: $(STAMP)
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

figures: $(STAMP)
	$(BIN)/python recipes/figures.py

$(REAL)/.fetched: | $(STAMP)
	$(BIN)/python recipes/fetch_real.py $(REAL)
	@touch $@

demo-real: $(REAL)/.fetched
	rm -rf $(REAL)/extended
	$(BIN)/ropewalk extend $(REAL)/SmolLM2.gguf --to 16384 --text $(REAL)/hamlet.txt --text $(REAL)/othello.txt \
		--methods ntk,ntk-critical,yarn,llama3,mrrope --documents 2 --trials 1 --needles 2 --resume --out $(REAL)/extended
	cp $(REAL)/extended/report.json benchmarks/results/extend-smollm2-135m-16384.json
	cp $(REAL)/extended/report.md docs/smollm2-16384.md

bench-memory: $(STAMP)
	$(BIN)/python benchmarks/attention_memory.py

bench: $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt 'rotary-embedding-torch>=0.8'
	$(BIN)/ropewalk bench --threads 1 --out benchmarks/results/speed-cpu.json
	$(BIN)/ropewalk bench --threads 2 --out benchmarks/results/speed-cpu-2-threads.json

bench-gpu: $(STAMP)
	$(BIN)/ropewalk bench --device cuda --out benchmarks/results/speed-gpu.json

bench-model: $(REAL)/.fetched
	$(BIN)/python benchmarks/whole_model.py $(REAL)/SmolLM2.gguf

compare-quick: $(STAMP)
	rm -rf comparison-quick
	$(BIN)/ropewalk compare --encodings none,sinusoidal,alibi,rope --seeds 1 --out comparison-quick

.cache/plays.txt: | $(STAMP)
	$(BIN)/python recipes/plays.py $@

compare: .cache/plays.txt
	$(BIN)/ropewalk compare --text .cache/plays.txt --out .cache/comparison --resume \
		--encoding benchmarks.x_transformers_peers:Rotary --encoding benchmarks.x_transformers_peers:ALiBi
	cp .cache/comparison/comparison.json benchmarks/results/comparison-plays.json
	cp .cache/comparison/comparison.md .cache/comparison/*.svg docs/

test-4.57: $(STAMP)
	$(PYTHON) -m venv .venv-4.57
	.venv-4.57/bin/pip install --quiet -c constraints-4.57.txt -e '.[test]'
	$(BIN)/python recipes/extended_by_every_method.py $(READERS)
	READERS=$(abspath $(READERS)) .venv-4.57/bin/pytest -m slow tests/checkpoints/test_two_transformers.py
	.venv-4.57/bin/pytest -m "not slow" tests/checkpoints

test-triton: $(STAMP)
	$(PYTHON) -m venv .venv-triton
	.venv-triton/bin/pip install --quiet -c constraints.txt -e . triton==3.5.0 numpy pytest hypothesis
	TRITON_INTERPRET=1 .venv-triton/bin/pytest tests/kernels/test_triton.py

test-peers: $(STAMP)
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/pip install --quiet -c constraints.txt -e . torchtune==0.6.1 torchao==0.13.0 pytest hypothesis
	.venv-peers/bin/pytest tests/external/test_torchtune.py

train: $(STAMP)
	$(BIN)/python recipes/train_shipped.py

clean:
	rm -rf $(VENV) .venv-4.57 .venv-peers .cache $(OUT)
