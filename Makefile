# The verbs are the same on a laptop and in CI. `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help

# What the product needs to run, and then what its tests need besides.
$(RUNTIME): pyproject.toml setup.py requirements.lock $(wildcard src/goqueue/records/*.[ch])
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("GoQueue needs Python 3.11 or newer; name one, as in: make test PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) -r requirements.lock
	$(PIP) --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q src/goqueue
	@touch $@

$(STAMP): $(RUNTIME) requirements-dev.lock
	$(PIP) -r requirements-dev.lock
	@touch $@

.PHONY: run
run: $(RUNTIME) ## set up what a server needs and run one; data goes to ./data, Ctrl-C stops it
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

.PHONY: pictures
pictures: $(STAMP) ## take the pictures of the console in docs/images anew
	GOQUEUE_PICTURES=1 $(BIN)/python -m pytest -m slow -k picture tests/browser

.PHONY: test-thorough
test-thorough: $(STAMP) ## every test but the slow ones, with all their cases and examples
	GOQUEUE_TEST_THOROUGH=1 $(BIN)/python -m pytest --numprocesses auto --dist loadfile

.PHONY: test-cluster
test-cluster: $(STAMP) ## the tests of every protocol with three nodes in place of a server
	GOQUEUE_TEST_CLUSTER=3 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile tests/protocol

SPARK_TESTS := $(addprefix tests/spark/test_, spark_fetching.py spark_moves.py spark_planner.py spark_writing.py \
	source_in_spark.py sink_in_spark.py pipeline_running.py jobs_copying.py)

.PHONY: test-cluster-spark
test-cluster-spark: $(STAMP) ## Spark's source, sink, a pipeline and jobs with three nodes in place of a broker
	GOQUEUE_TEST_CLUSTER=3 $(BIN)/python -m pytest -p no:xdist $(SPARK_TESTS)

QUEUE_TESTS := $(wildcard tests/protocol/test_share_*.py tests/protocol/http/test_http_*queue*.py \
	tests/protocol/http/test_http_*letter*.py tests/protocol/grpc/test_grpc_acks.py \
	tests/protocol/grpc/test_grpc_queue_stream.py tests/protocol/client/test_*queue*.py \
	tests/protocol/cli/test_queue_*.py tests/protocol/worker/test_*.py)

.PHONY: test-remote-queues
test-remote-queues: $(STAMP) ## the queue's tests with three nodes whose queue groups read only the leaders of partitions
	GOQUEUE_TEST_CLUSTER=3 GOQUEUE_TEST_REMOTE_SOURCES=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile $(QUEUE_TESTS)

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
WORKLOADS ?= logs,transactions,queues,delays,schemas
FAULTS ?=
MISTAKE ?=

.PHONY: test-chaos
test-chaos: $(STAMP) ## random faults in a cluster of three nodes for MINUTES=, drawn by SEED=, under WORKLOADS=; or FAULTS=, or a MISTAKE= in the brokers; histories go to build/chaos/
	PYTHONPATH=.:tests $(BIN)/python -m cluster.chaos --seed $(SEED) --minutes $(MINUTES) --workloads $(WORKLOADS) --faults "$(FAULTS)" --mistake "$(MISTAKE)"

.PHONY: docs
docs: $(STAMP) ## the documentation as a site, in site/
	$(BIN)/mkdocs build --strict

LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command "make lock"

.PHONY: lock
lock: $(STAMP) ## resolve the environments of the product and of its development anew
	$(LOCK) --all-extras --group dev pyproject.toml -o requirements-dev.lock
	$(LOCK) --group build --constraint requirements-dev.lock pyproject.toml -o requirements.lock
	$(LOCK) --extra oidc --extra otlp --extra s3 --extra schemas --extra tls --group build \
		--constraint requirements-dev.lock pyproject.toml -o requirements-image.lock

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
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .coverage* src/*.egg-info src/goqueue/records/*.so $(WEB)/node_modules clients/typescript/node_modules clients/typescript/dist

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | sort
