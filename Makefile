# Two commands need no preparation: `make demo` and `make test`. Both set up .venv themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WILDS := .venv-wilds
TRAINERS := .venv-trainers
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint requirements/constraints.txt

# Real data for the tests that want it; they are skipped, with that reason, where it is absent.
ifneq ($(wildcard ../shared/data),)
export CLOVECAL_DATA ?= $(abspath ../shared/data)
endif

.PHONY: demo test test-wilds test-trainers faults coverage lint bench docs clean

demo: $(VENV)/.demo
	$(BIN)/clovecal demo --output demo-output

test: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

# Which lines and branches the tests reach; it doubles their time.
coverage: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# The readers beside the wilds package, and the torchvision and transformers models, in an environment of their own.
test-wilds: $(WILDS)/.done
	$(WILDS)/bin/python -m pytest tests/oracles_wilds

# The examples of docs/examples beside Lightning and transformers, in an environment of their own.
test-trainers: $(TRAINERS)/.done
	$(TRAINERS)/bin/python -m pytest tests/oracles_trainers

# Kills at hundreds of moments, of which the tests try a few.
faults: $(VENV)/.dev
	CLOVECAL_KILLS=70 $(BIN)/python -m pytest tests/faults
	CLOVECAL_EXAMPLES=2500 CLOVECAL_CHANGES=12 $(BIN)/python -m pytest tests/hostile

# Those that need a GPU (losses, ensemble, densenet) are for a machine that has one: see benchmarks/README.md.
bench: $(VENV)/.dev
	for name in audit minimax tables; do $(BIN)/python benchmarks/bench_$$name.py || exit 1; done

# Every module without an underscore in its path: pdoc alone would show only those that a package's __all__ names.
PUBLIC_MODULES = $(shell cd src && find clovecal -name '*.py' ! -path '*/_[a-z]*' ! -name '__main__.py' \
	! -path 'clovecal/cli/*' | sort | sed 's,/__init__.py$$,,; s,.py$$,,; s,/,.,g')

docs: $(VENV)/.dev
	$(PIP) --editable '.[docs]'
	$(BIN)/python scripts/update_tables.py
	$(BIN)/python -W 'ignore:The module specification' -m pdoc $(PUBLIC_MODULES) --docformat numpy --output-directory docs/_build

clean:
	rm -rf $(VENV) $(WILDS) $(TRAINERS) demo-output docs/_build

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "clovecal needs Python 3.11 or newer; name one with: make PYTHON=python3.12 demo" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml requirements/constraints.txt | $(BIN)/python
	$(PIP) --editable '.[tables,report]'
	touch $@

$(VENV)/.dev: pyproject.toml requirements/constraints.txt | $(BIN)/python
	$(PIP) --editable '.[dev,oracles]'
	touch $@ $(VENV)/.demo

# torch from its CPU wheel first; the others without their dependencies, which would bring another torch.
$(WILDS)/.done: pyproject.toml requirements/wilds.txt requirements/wilds-no-deps.txt
	$(PYTHON) -m venv $(WILDS)
	$(WILDS)/bin/python -m pip --disable-pip-version-check install --quiet --requirement requirements/wilds.txt
	$(WILDS)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --requirement requirements/wilds-no-deps.txt
	$(WILDS)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --editable .
	touch $@

$(TRAINERS)/.done: pyproject.toml requirements/trainers.txt
	$(PYTHON) -m venv $(TRAINERS)
	$(TRAINERS)/bin/python -m pip --disable-pip-version-check install --quiet --requirement requirements/trainers.txt
	$(TRAINERS)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --editable .
	touch $@
