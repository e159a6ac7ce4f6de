# `make demo` and `make test` need only Python 3.11: the environment in .venv is built first.
# Another interpreter: make PYTHON=/opt/python3.11/bin/python3.11 test

PYTHON ?= $(firstword $(foreach name,python3.11 python3,$(shell \
	$(name) -c 'import sys; sys.version_info[:2] == (3, 11) and print("$(name)")' 2>/dev/null)))
BIN := .venv/bin
STAMP := .venv/.complete
PIP := $(BIN)/python -m pip install -c constraints.txt

.PHONY: demo test test-all lint bench docs clean

demo: $(STAMP)
	$(BIN)/eptsim demo --out demo-out

test: lint
	$(BIN)/pytest -m "not slow"

test-all: lint
	$(BIN)/pytest

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/mypy --strict eptsim
	$(BIN)/lint-imports --no-cache

bench: $(STAMP)
	@set -e; for file in benchmarks/*.py; do \
		if [ -e "$$file" ]; then echo "== $$file"; $(BIN)/python "$$file"; fi; done

# Builds docs/_build/index.html; a broken link between pages is an error.
docs: $(STAMP)
	$(PIP) --quiet --no-build-isolation -e '.[docs]'
	$(BIN)/sphinx-build -W --keep-going -q docs docs/_build
	@echo "Open docs/_build/index.html"

# The stamp goes first and comes back last, so an interrupted build starts anew.
$(STAMP): setup.cfg pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { \
		echo "eptsim needs Python 3.11; neither python3.11 nor python3 here is that version" \
		"(python3: $$(python3 --version 2>/dev/null || echo missing))." \
		"Install it, or name it: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null || { \
		echo "eptsim needs Python 3.11; $(PYTHON) is" \
		"$$("$(PYTHON)" --version 2>/dev/null || echo missing)." >&2; exit 1; }
	@if [ -e $@ ]; then rm -f $@; else \
		echo "Building .venv (several GB the first time)"; "$(PYTHON)" -m venv --clear .venv; fi
	$(PIP) --quiet pip setuptools wheel
	$(PIP) --no-build-isolation -e '.[test,aihwkit]'
	@touch $@

clean:
	rm -rf .venv build dist *.egg-info demo-out docs/_build .mypy_cache .ruff_cache .pytest_cache \
		.hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
