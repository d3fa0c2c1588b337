# One command for a newcomer, and the same in CI. `make` alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCK := requirements.lock
READY := $(VENV)/.ready
ROOMS := actuators audit producers recovery relight rules runtime sandbox schemas streams supervisor
CHECKED := $(ROOMS) tests $(wildcard benchmarks)
LINTED := $(CHECKED) deploy

# What a test run prints beside its result: the ten slowest tests are what to mend first.
PYTEST := $(BIN)/python -m pytest --durations=10

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

.PHONY: venv
venv: $(READY) ## the environment, from the lock file, in .venv

# Marked ready last: an interrupted build is done again, and a new lock brings the environment up to date.
$(READY): $(LOCK) pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else f"Python 3.11 or newer is needed, this is {sys.version}")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement $(LOCK)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index --editable .
	touch $(READY)

.PHONY: lock
lock: $(READY) ## resolve the dependencies of pyproject.toml into the lock file again
	$(BIN)/pip-compile --quiet --extra dev --strip-extras --allow-unsafe --generate-hashes \
		--no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options \
		--annotation-style line $(LOCK_ARGS) --output-file $(LOCK) pyproject.toml
	! grep -n '://' $(LOCK)

.PHONY: format
format: $(READY) ## format and mend what a machine can mend
	$(BIN)/ruff format $(LINTED)
	$(BIN)/ruff check --fix $(LINTED)

.PHONY: lint
lint: $(READY) ## format, lint, types and the rooms' contracts, without tests
	$(BIN)/ruff format --check $(LINTED)
	$(BIN)/ruff check $(LINTED)
	$(BIN)/lint-imports
	$(BIN)/mypy $(foreach folder,$(CHECKED),--package $(folder))

.PHONY: check
check: lint ## lint and unit tests, under a minute: before each commit
	$(PYTEST) -n auto --dist loadfile -m "not real and not slow and not soak and not bench"

.PHONY: real
real: $(READY) ## fetch or build the real parts tests run on, in the user's cache folder
	$(BIN)/python -m sandbox.kafka_jars
	$(BIN)/python -m sandbox.kafka_classes
	$(BIN)/python -m sandbox.old_python
	$(BIN)/python -m sandbox.control_plane_build

.PHONY: test
test: lint real ## everything: lint, all tests, real parts
	result=0; \
	$(PYTEST) -n auto --dist loadfile -m "not alone and not soak and not bench" $(TEST_ARGS) || result=$$?; \
	$(PYTEST) -m "alone and not soak and not bench" $(TEST_ARGS) || result=$$?; \
	exit $$result # what fails in the first does not hide what the second would say

.PHONY: demo
demo: $(READY) $(if $(REAL),real) ## three faults of a training job and what comes of them; REAL=1: on real Kafka and Kubernetes
	$(BIN)/relight sandbox demo $(if $(REAL),--real) $(DEMO_ARGS)

.PHONY: soak
soak: real ## the long versions; the result is kept in docs/soak.md
	$(PYTEST) -m soak --hypothesis-profile=soak --soak-report=docs/soak.md $(TEST_ARGS)

.PHONY: bench
bench: real ## measure; prints a table, writes JSON
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

.PHONY: clean
clean: ## remove the environment and what tools left behind
	rm -rf $(VENV) .coverage htmlcov .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
