# The verbs are the same on a laptop and in CI. `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help

$(STAMP): pyproject.toml setup.py requirements-dev.lock $(wildcard src/goqueue/records/*.[ch])
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("GoQueue needs Python 3.11 or newer; name one, as in: make test PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q src/goqueue
	@touch $@

.PHONY: run
run: $(STAMP) ## set everything up and run a server; data goes to ./data, Ctrl-C stops it
	$(BIN)/goqueue server

.PHONY: test
test: $(STAMP) ## every test but the slow ones
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

.PHONY: test-again
test-again: $(STAMP) ## those that failed last, one after the other; names and counts those that pass alone
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none --maxfail 1 -v

.PHONY: test-slow
test-slow: $(STAMP) ## the long tests alone
	$(BIN)/python -m pytest -m slow --timeout 1800

.PHONY: test-cluster
test-cluster: $(STAMP) ## the tests of every protocol with three nodes in place of a server
	GOQUEUE_TEST_CLUSTER=3 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile tests/protocol

.PHONY: coverage
coverage: $(STAMP) ## how much of the code the unit tests run; less than pyproject.toml has fails
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest --numprocesses auto --dist loadfile tests/unit
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

.PHONY: check
check: $(STAMP) ## format, lint, import contracts, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy

.PHONY: fix
fix: $(STAMP) ## format, and fix what the linter can
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

.PHONY: etcd
etcd: $(STAMP) ## etcd for this user, which a cluster needs; from Debian's packages, without root
	$(BIN)/goqueue cluster install-etcd

.PHONY: bench
bench: $(STAMP) ## every benchmark; results go to benchmarks/results/local.jsonl
	$(BIN)/goqueue bench

.PHONY: test-benchmarks
test-benchmarks: $(STAMP) ## a few short benchmarks, to see that they work; their figures do not count
	$(BIN)/goqueue bench codec storage.lookup broker.start metrics state

MINUTES ?= 10

.PHONY: fuzz
fuzz: $(STAMP) ## damaged inputs into every parser for MINUTES=; findings go to build/fuzz/
	PYTHONPATH=.:tests $(BIN)/python -m fuzz.driver --minutes $(MINUTES)

SEED ?= $(shell date +%s)

.PHONY: test-chaos
test-chaos: $(STAMP) ## random faults in a cluster of three nodes for MINUTES=, drawn by SEED=; histories go to build/chaos/
	PYTHONPATH=.:tests $(BIN)/python -m cluster.chaos --seed $(SEED) --minutes $(MINUTES)

.PHONY: docs
docs: $(STAMP) ## the documentation as a site, in site/
	$(BIN)/mkdocs build --strict

.PHONY: lock
lock: $(STAMP) ## resolve the development environment anew
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--all-extras --group dev --custom-compile-command "make lock" \
		pyproject.toml -o requirements-dev.lock

.PHONY: proto
proto: $(STAMP) ## the Python side of the gRPC contract, made anew
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m grpc_tools.protoc -I src \
		--python_out=src --grpc_python_out=src --mypy_out=quiet:src --mypy_grpc_out=quiet:src \
		goqueue/wire/grpc/v1/goqueue.proto

.PHONY: messages
messages: $(STAMP) ## the table of Kafka's messages, made anew from kio
	PYTHONPATH=tests $(BIN)/python -m support.kio_messages

WEB := src/goqueue/console/web

$(WEB)/node_modules/.package-lock.json: $(WEB)/package.json $(WEB)/package-lock.json
	cd $(WEB) && npm ci --silent
	@touch $@

.PHONY: console
console: $(WEB)/node_modules/.package-lock.json ## the web console, from its source into what is served (needs Node)
	cd $(WEB) && npm run --silent check && npm run --silent build

.PHONY: clean
clean: ## remove what the other verbs made
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .coverage* src/*.egg-info src/goqueue/records/*.so $(WEB)/node_modules

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | sort
