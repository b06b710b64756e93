# Every command of the project. `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

export PERAGO_CACHE_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/perago
export UV_CACHE_DIR := $(PERAGO_CACHE_DIR)/uv
export PIP_CACHE_DIR := $(PERAGO_CACHE_DIR)/pip
# uv follows the certificates the rest of the machine trusts.
export UV_NATIVE_TLS ?= 1
# Tests start hundreds of Python processes, which would each compile every module again.
unexport PYTHONDONTWRITEBYTECODE
# Tables that hypothesis computes once; a fresh clone need not compute them again.
export HYPOTHESIS_STORAGE_DIRECTORY ?= $(PERAGO_CACHE_DIR)/hypothesis

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
TEST_ARGS ?=

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(READY) ## make .venv with everything the other targets need

$(READY): pyproject.toml requirements/uv.txt requirements/dev.txt scripts/bootstrap.sh
	@PYTHON="$(PYTHON)" bash scripts/bootstrap.sh
	@touch $@

.PHONY: demo
demo: $(READY) ## the real thing, end to end, on servers of its own
	@$(BIN)/perago demo

.PHONY: dev
dev: $(READY) ## a real Conductor and a real lakeFS until Ctrl-C
	@$(BIN)/perago dev

.PHONY: quick
quick: $(READY) ## every test that needs no server
	$(BIN)/pytest -n 3 --dist worksteal -m "not server and not slow and not chaos" $(TEST_ARGS)

.PHONY: test
test: lint ## lint, then every test but the long ones of chaos, on one pair of servers; TEST_ARGS='tests/lake -k merge' selects
ifeq ($(TEST_ARGS),)
	# Coverage is measured, and its floor checked, where it costs seconds: in the tests without servers.
	$(BIN)/pytest -n 3 --dist worksteal -m "not server and not slow and not chaos" --cov --cov-report=
	$(BIN)/pytest -n 6 --dist loadfile --no-loadscope-reorder -m "(server or slow) and not chaos"
else
	$(BIN)/pytest -n 6 --dist loadfile --no-loadscope-reorder $(TEST_ARGS)
endif

.PHONY: coverage
coverage: $(READY) ## the lines of the package that make quick does not reach
	$(BIN)/pytest -n 3 --dist worksteal -m "not server and not slow and not chaos" \
	  --cov --cov-report=term-missing:skip-covered --cov-fail-under=0 $(TEST_ARGS)

.PHONY: chaos
chaos: $(READY) ## full kill matrices, random examples, simulated races and soak; MINUTES=60 for each of the last three (default 5)
	$(BIN)/pytest -n 6 --dist loadfile --no-loadscope-reorder -m "chaos or hypothesis" --hypothesis-profile=explore $(TEST_ARGS)
	@$(MAKE) --no-print-directory simulate soak MINUTES=$(or $(MINUTES),5)
	@$(MAKE) --no-print-directory soak MINUTES=$(or $(MINUTES),5) ARGS=--contention

.PHONY: model
model: $(READY) ## check the publication protocol with TLC; DEPTH=1 looks further, SHOW=revoke tells a counterexample
	@$(BIN)/python -m model.check $(if $(DEPTH),--depth $(DEPTH)) $(if $(SHOW),--show $(SHOW))

.PHONY: simulate
simulate: $(READY) ## attempts against each other under every kind of bad luck; MINUTES=5 or SCHEDULES=100000, ARGS='--seed 7' replays
	@$(BIN)/python -m simulation.run $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SCHEDULES),--schedules $(SCHEDULES)) $(ARGS)

.PHONY: docs
docs: $(READY) ## the manual as a static site in site/; warnings and broken links are errors
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env --doctree-dir site/.doctrees docs site
	@echo "open site/index.html"

.PHONY: soak
soak: $(READY) ## workers under random kills and network faults, then the protocol's invariants; MINUTES=10, ARGS='--seed 7' or ARGS=--contention
	@PYTHONPATH=. $(BIN)/python bench/soak.py --minutes $(or $(MINUTES),10) $(ARGS)

.PHONY: bench
bench: $(READY) ## every benchmark with its targets, on servers of its own; QUICK=1 takes minutes instead of hours
	@failed=0; for script in startup workspace fence contention worker pipeline attempts spark data_checks; do \
	  PYTHONPATH=. $(BIN)/python bench/$$script.py $(if $(QUICK),--quick) || failed=1; \
	done; exit $$failed

.PHONY: lint
lint: $(READY) ## formatting, lints, types, import direction
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports
	$(BIN)/basedpyright

.PHONY: pins
pins: $(READY) ## resolve the requirement pins anew (requirements/*.txt)
	$(BIN)/uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --all-extras --group dev --group bench --group delta --group docs pyproject.toml -o requirements/dev.txt
	echo uv | $(BIN)/uv pip compile -q --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate - -o requirements/uv.txt

.PHONY: clean
clean: ## remove what the other targets made in this clone (the cache stays)
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage dist site
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
