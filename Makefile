# Two commands are all a fresh machine needs: `make demo` and `make test`. Both set up what they use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup demo test lint bench clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mnemolog needs Python 3.11 or later: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

demo: setup
	$(BIN)/python -P tests/demo.py

lint: setup
	$(BIN)/ruff check store serve pipelines tests
	$(BIN)/ruff format --check store serve pipelines tests
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest

bench: setup
	$(BIN)/python tests/bench/run.py

clean:
	rm -rf $(VENV) .demo
