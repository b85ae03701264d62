# `make demo` and `make test` set everything up by themselves; all they need is Python 3.11+ and a package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready
export NO_MKDOCS_2_WARNING := 1

.PHONY: demo test test-all wheel check docs bench bench-peers browser format clean

demo: $(INSTALLED)
	$(BIN)/python experiments/digits.py --out demo

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-all: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal

# Wheel into a new environment, tests from there; `make wheel LOWEST=--lowest` with the oldest dependencies allowed.
wheel: $(READY)
	$(BIN)/python experiments/wheel.py $(LOWEST)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/mkdocs build --strict --quiet --site-dir site

docs: $(READY)
	$(BIN)/mkdocs build --strict --site-dir site

bench: $(READY)
	$(BIN)/python -m benchmarks --peers --results benchmarks/results
	cp benchmarks/results/scale.png docs/assets/scale.png

bench-peers: $(READY)
	$(BIN)/pip install --quiet -e ".[peers]"
	$(BIN)/python -m benchmarks --peers --results benchmarks/results

# Chromium for the tests of the HTML report; they are skipped where there is none.
browser:
	command -v chromium >/dev/null || (apt-get update && apt-get install -y chromium)

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -e .
	touch $(INSTALLED)

$(READY): $(INSTALLED)
	$(BIN)/pip install --quiet -e ".[dev]"
	touch $(READY)

clean:
	rm -rf $(VENV) site demo .pytest_cache .mypy_cache .ruff_cache
