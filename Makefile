# Every target is also what continuous integration runs, and nothing else.
# `make` on a fresh Debian or Ubuntu needs python3, cc and make; scripts/setup.sh fetches the rest.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STAMPS := .stamps
TESTS ?= tests
PYTEST_ARGS ?=

.PHONY: all dev build test lint format type clean

all: build

$(STAMPS)/venv: pyproject.toml scripts/setup.sh
	@mkdir -p $(STAMPS)
	scripts/setup.sh $(PYTHON) $(VENV)
	@touch $@

dev: $(STAMPS)/venv

build: dev
	$(PY) -W ignore setup.py -q build_ext --inplace
	$(PY) scripts/build_launcher.py $(VENV)/bin
	$(PY) -m compileall -q src/pyslurm_ng

test: build
	$(PY) -m pytest $(TESTS) -m "not soak and not perf" -q $(PYTEST_ARGS)

lint: dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format: dev
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

type: dev
	$(VENV)/bin/mypy

clean:
	rm -rf build $(STAMPS) src/*.egg-info
