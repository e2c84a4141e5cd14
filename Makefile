# The one list of commands. Each creates what it needs first; on a fresh machine Python 3.11, pip and make are enough.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
JOBS   ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal
FAST   := not slow and not statistical and not compile and not examples

# The innermost rooms: more than 95 % of their lines are run by the tests.
INNERMOST := checks.py noise.py trees.py spaces.py selection.py modes.py mixture.py kernels/* ops/* resamplers/* filters/*
comma := ,
space := $(subst ,, )
INCLUDE := $(subst $(space),$(comma),$(addprefix src/mdpf/,$(INNERMOST)))

.DEFAULT_GOAL := help
.PHONY: help setup test test-rest check lint types imports format docs tables coverage demo bench clean

help:  ## List the commands.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-10s %s\n", $$1, $$2}'

setup: $(STAMP)  ## Make the environment in .venv; done once, and again when its description changes.

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "make needs Python 3.11 or newer, got " + sys.version.split()[0] + ". Name another: make PYTHON=python3.11 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

test: $(STAMP)  ## Run the exact tests and the contracts: fast.
	$(PYTEST) -m "$(FAST)" $(PYTEST_FLAGS)

test-rest: $(STAMP)  ## Run what `make test` leaves out: statistical, slow and compiled tests, README and docs examples.
	$(PYTEST) -m "not ($(FAST))" $(PYTEST_FLAGS)

check: $(STAMP)  ## Run everything that continuous integration runs, the fast tools first.
	$(MAKE) lint imports types docs
	rm -f .coverage
	$(MAKE) test PYTEST_FLAGS="--cov=mdpf --cov-report="
	$(MAKE) test-rest PYTEST_FLAGS="--cov=mdpf --cov-report= --cov-append --durations=10"
	$(MAKE) coverage

coverage: $(STAMP)  ## Report what the last `make check` left unrun; fail below 95 % in the innermost rooms.
	$(BIN)/coverage report --include='$(INCLUDE)' --show-missing --skip-covered --fail-under=95

lint: $(STAMP)  ## Check style and format.
	$(BIN)/ruff check
	$(BIN)/ruff format --check

imports: $(STAMP)  ## Check that rooms import only what lies below them.
	PYTHONPATH=src $(BIN)/lint-imports

types: $(STAMP)  ## Check the types.
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(STAMP)  ## Format the code and fix what can be fixed by itself.
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

docs: $(STAMP)  ## Build the documentation into docs/_build/html; a warning is an error.
	$(BIN)/python -m sphinx -W --keep-going -q -j auto -b html docs docs/_build/html

tables: $(STAMP)  ## Write the numbers of the result files into the README, and the weights of the study into the package.
	$(BIN)/python -m mdpf.report.tables README.md
	$(BIN)/python -m mdpf.demo.ship

demo: $(STAMP)  ## Track with the shipped weights and draw what the filter believes.
	$(BIN)/mdpf demo

bench: $(STAMP)  ## Measure speed and memory.
	$(BIN)/mdpf bench

clean:  ## Remove the environment and everything built.
	rm -rf $(VENV) docs/_build docs/api build dist .coverage .pytest_cache .ruff_cache .hypothesis .import_linter_cache
