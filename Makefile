# Every target sets up what it needs; override with e.g. `make test PYTHON=python3.12 VENV=/tmp/env`.
VENV ?= .venv
PYTHON ?= python3
ARGS ?=

BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt
INSTALLED := $(VENV)/.installed
TEST_INSTALLED := $(VENV)/.test-installed
DOCS_INSTALLED := $(VENV)/.docs-installed
CODE := $(wildcard src tests examples benchmarks docs)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install demo test test-all test-packages test-gpu soak check format bench docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' Makefile

install: $(INSTALLED) ## create the virtual environment and install the package with its development tools

demo: $(INSTALLED) ## train a small model and show its memory at work
	$(BIN)/rmt demo $(ARGS)

test: $(TEST_INSTALLED) ## run the tests but the slow ones; ARGS='-k bptt' selects some
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow' $(ARGS)

test-all: $(TEST_INSTALLED) ## run all tests, slow ones too
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

test-packages: $(TEST_INSTALLED) ## build wheel and sdist and try them in an empty environment; ARGS=--full: all tests
	$(BIN)/python tests/packages/check.py $(ARGS)

test-gpu: $(TEST_INSTALLED) ## run all that needs a GPU, and the kernels on it
	@$(BIN)/python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' || \
		{ echo "error: torch $$($(BIN)/python -c 'import torch; print(torch.__version__)') finds no CUDA device, which make test-gpu needs; make test-all runs the kernels in Triton's interpreter" >&2; exit 1; }
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 8 --dist worksteal tests/gpu $(ARGS)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 4 --dist worksteal -m gpu --ignore tests/gpu $(ARGS)

soak: $(TEST_INSTALLED) ## kills, full disks, damaged files, odd options by the thousand; ARGS='--kills 20 --seed 1'
	OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m tests.soak $(ARGS)

check: $(INSTALLED) ## lint, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src/rmt

format: $(INSTALLED) ## rewrite the code in the project's format
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

bench: $(INSTALLED) ## measure speed (rmt bench); what each script of benchmarks/ is for stands in its first lines
	$(BIN)/rmt bench $(ARGS)

docs: $(DOCS_INSTALLED) ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean: ## remove caches and build output; the virtual environment and runs/ stay
	rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@test -z "$(CODE)" || find $(CODE) -type d -name __pycache__ -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "error: Python 3.11 or newer is needed, and PYTHON=$(PYTHON) is $$($(PYTHON) -V 2>&1 | grep ^Python || echo not a Python); name another with 'make PYTHON=python3.12'" >&2; exit 1; }
	@echo "installing into $(VENV) (a few minutes the first time)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) -e '.[dev]'
	@touch $@

$(TEST_INSTALLED): $(INSTALLED)
	@echo "installing pretrained models for the tests into $(VENV)"
	@$(PIP_INSTALL) -e '.[test]'
	@touch $@

$(DOCS_INSTALLED): $(INSTALLED)
	@echo "installing the documentation tools into $(VENV)"
	@$(PIP_INSTALL) -e '.[docs]'
	@touch $@
