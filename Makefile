# Everything that is done here has one command. Each makes its own environment in .venv; needed are python3 and make.

.DEFAULT_GOAL := help
ifndef TWO_AT_ONCE
.NOTPARALLEL:
endif
.PHONY: help demo test check formatted linted typed thorough together bench bench-gpu format reference docs clean

export OMP_NUM_THREADS := 1
export PYTHONDONTWRITEBYTECODE := # else every process of the tests compiles the package anew: half a second each
PYTHON ?= python3
export PYTHON
RUN := .venv/bin/python

# An environment of a folder that has moved, or of a Python that has gone, is none.
$(shell test "$$(cat .venv/ready 2>/dev/null)" = "$(CURDIR)" && .venv/bin/python -c '' 2>/dev/null || rm -f .venv/ready)

help:                    ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 18

demo: .venv/ready        ## compare float32, bfloat16 and float16 on the digits, and float16 with a mistake; the report is demo/report.html
	$(RUN) -m truestep compare digits --candidates 'fp32 clip=0.1' 'bf16 clip=0.1' 'fp16 clip=0.1' \
	    'fp16 clip=0.1 fault=clip-before-unscale' --seeds 7 --out demo --resume # keeps finished runs

test: .venv/ready        ## run the tests
	$(RUN) -m pytest -n 2 --dist worksteal

check: formatted linted together test  ## everything that a change must pass: layout, lint, types, tests (documents among them)

formatted: .venv/ready
	$(RUN) -m ruff format --check --quiet .

together: .venv/ready # the types are one core's work
	@$(MAKE) --no-print-directory --jobs 2 TWO_AT_ONCE=yes typed thorough

thorough: .venv/ready    ## run a part of the full profile: 1,000 random programs in float32, 50 kills of a training, all that the README shows
	TRUESTEP_FULL=1 TRUESTEP_SEED=0 $(RUN) -m pytest -n 2 tests/engine/programs tests/cli/test_train_killed.py \
	    tests/architecture/test_documents.py -k 'laws_1_to_12 and fp32 or undisturbed and digits or shows_what_happens and README'

linted: .venv/ready
	$(RUN) -m ruff check --quiet .

typed: .venv/ready
	$(RUN) -m mypy

bench: .venv/ready .venv/rivals  ## measure what truestep costs beside others, all of it, and write benchmarks/RESULTS.md
	$(RUN) -m benchmarks

bench-gpu: .venv/ready .venv/rivals  ## the same where there is a CUDA device, into benchmarks/RESULTS-GPU.md
	@if ! $(RUN) -c 'import sys, torch; sys.exit(0 if torch.cuda.is_available() else 1)'; then \
	    echo "bench-gpu: nothing measured, because torch finds no CUDA device here"; \
	else \
	    $(RUN) -m benchmarks --gpu; \
	fi

# What is only measured against. Without it the benchmarks go on, and their tables say what is absent.
.venv/rivals: .venv/ready
	@if command -v uv >/dev/null 2>&1; then install="uv pip install --python $(RUN)"; else install="$(RUN) -m pip install"; fi; \
	    $$install --quiet --constraint constraints.txt --group bench && touch $@ || echo "bench: goes on without the group bench"

format: .venv/ready      ## lay out the code and mend what lint can mend
	$(RUN) -m ruff format .
	$(RUN) -m ruff check --fix .

reference: .venv/ready   ## write the pages of docs/ that are written from the code: names, commands, formats, lessons
	@for page in reference commands formats lessons; do $(RUN) docs/$$page.py || exit 1; done

docs: .venv/ready        ## build the documentation into site/, and fail on a broken link; then open site/index.html
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict

clean:                   ## remove what was made here: environment, caches, demo
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist demo site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/ready: pyproject.toml constraints.txt
	@echo "preparing .venv (a few minutes the first time: PyTorch is large)"
	@.ci/environment
