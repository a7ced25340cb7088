# Every target is also what continuous integration runs, and nothing else.
# A fresh Debian or Ubuntu needs only python3, cc and make; scripts/setup.sh fetches the rest.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
DOCS_VENV := .venv-docs
PY := $(VENV)/bin/python
STAMPS := .stamps
PREFIX ?= /opt/pyslurm-ng
TESTS ?= tests
# More processes than there are CPUs, since many tests mostly wait. See tests/world/sharing_out.py.
PYTEST_ARGS ?= -n $(shell expr $$(nproc) + 2) --dist loadfile

.PHONY: all dev build demo test lint format type bench soak soak-random fuzz fuzz-live man tables docs docs-pages docs-html changelog install deb clean

all: build

# The virtual environment with every tool; runs again when a dependency changes.
$(STAMPS)/venv: pyproject.toml scripts/setup.sh
	@mkdir -p $(STAMPS)
	scripts/setup.sh $(PYTHON) $(VENV)
	@touch $@

dev: $(STAMPS)/venv

# Cython modules in place, commands and daemons in .venv/bin.
build: dev
	@$(PY) -W ignore setup.py -q build_ext --inplace
	@$(PY) scripts/build_launcher.py $(VENV)/bin
	@$(PY) -m compileall -q src/pyslurm_ng

# A cluster of four pretended nodes runs real batch scripts.
demo: build
	demo/run.sh

test: build
	scripts/run_tests.sh $(PY) $(TESTS) -m "not soak and not perf" -q $(PYTEST_ARGS)

lint: dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format: dev
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

type: dev
	$(VENV)/bin/mypy

# Each program prints our figures beside the peer's or the limit.
bench: build
	bench/run.sh

# What takes minutes: random crashes, many seeds. Each part runs alone, too: `make soak-controller`.
# PYSLURM_FULL_SOAK=1 does all of what is otherwise a sample: each crash point, not each tenth, 200 kills
# for 40, ten thousand clients for two, a hundred thousand jobs for twenty. On two cores with a load of
# 20 to 40, all crash points took 55 minutes, ten thousand clients 10, fifty kills 6; the faults of nodes
# 6, fifteen thousand connections 3, journals with one wrong bit 5 to 10.
SOAK_controller := tests/ctld tests/journal tests/sim tests/wire
SOAK_nodes := tests/d tests/daemons/test_escapes_live.py tests/daemons/test_faults_daemons.py tests/daemons/test_faults_limits.py tests/daemons/test_faults_tasks.py tests/daemons/test_node_daemon.py tests/daemons/test_slow_clients.py tests/daemons/test_soak.py
SOAK_accounting := tests/dbd tests/daemons/test_accounting_live.py
SOAK_plans := tests/sched
SOAK_programs := tests/daemons/test_mpi_programs.py tests/clients tests/launcher
# What an ordinary user may try, in classes: prints a line for each attack.
SOAK_hostile := tests/hostile
SOAK_PARTS := controller nodes accounting plans programs hostile

soak: $(SOAK_PARTS:%=soak-%) soak-random

$(SOAK_PARTS:%=soak-%): soak-%: build
	scripts/run_tests.sh $(PY) $(SOAK_$*) -m soak -q

soak-random: build
	PYSLURM_RANDOM_EXAMPLES=1 $(PY) -m pytest $(TESTS) -m "(hypothesis or seeds) and not soak" -q
	PYSLURM_SIM_SEEDS=$${PYSLURM_SIM_SEEDS:-3000} $(PY) -m pytest tests/sim -k chaos -m "not soak" -q

# Every decoder and parser for FUZZ_SECONDS in all; by coverage where atheris can be installed.
FUZZ_SECONDS ?= 600
fuzz: build
	-@$(PY) -m pip install -q --disable-pip-version-check --no-build-isolation -e '.[fuzz]'
	$(PY) -m tests.fuzz.run --seconds $(FUZZ_SECONDS)

# Every socket of a live cluster, FUZZ_SECONDS each, as an ordinary user and as strangers; as root.
fuzz-live: build
	$(PY) -m tests.fuzz.live --seconds $(FUZZ_SECONDS)

# The manual pages: texts in man/, joined with the tables of options, keys and facts.
man: build
	$(PY) tools/generate_man.py build/man

# The committed modules of tables, from what is documented of Slurm in tools/facts.
tables: build
	$(PY) tools/generate_tables.py

# Documentation: the committed pages that are generated, then the site. Warnings are errors.
docs: docs-pages docs-html

docs-pages: build
	$(PY) tools/generate_compat.py docs/reference/compat.md
	$(PY) tools/generate_bounds.py docs/reference/message-bounds.md
	$(PY) tools/generate_reliability.py docs/reliability.md
	$(PY) tools/generate_adr_index.py docs/adr/README.md
	$(PY) tools/generate_conf_examples.py

# An environment of its own: nothing that builds, runs or tests the programs waits for it.
$(STAMPS)/docs-venv: docs/site/requirements.txt scripts/setup_docs.sh | $(STAMPS)/venv
	scripts/setup_docs.sh $(PY) $(DOCS_VENV)
	@touch $@

# The site with search, in build/site/html, from docs/ and the manual pages.
docs-html: man $(STAMPS)/docs-venv
	$(PY) tools/stage_site.py build/man build/site/source
	$(DOCS_VENV)/bin/sphinx-build -q -W --keep-going -b html -d build/site/doctrees build/site/source build/site/html

# A release: changelog.d becomes a part of CHANGELOG.md. make changelog VERSION=0.2
changelog: $(STAMPS)/docs-venv
	$(DOCS_VENV)/bin/towncrier build --yes --version $(VERSION)

install: build man
	scripts/install.sh $(PREFIX) $(PY)

# Debian packages of commands, controller, node and accounting, in build/deb.
deb:
	scripts/build_deb.sh

clean:
	rm -rf build $(STAMPS) src/*.egg-info
