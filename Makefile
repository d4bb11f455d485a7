.DEFAULT_GOAL := help
SHELL := /bin/sh

# The first of these that runs and is Python 3.11 or newer.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
BIN := .venv/bin
INSTALL := -m pip install --quiet --disable-pip-version-check --require-hashes

# The machine that a package is for: arm64 or x86_64; empty for this one.
ARCH ?=

# Where the generated client is written.
CLIENT ?= build/client

.PHONY: help run reset package cloud cloud-stop contract openapi lint-openapi test fuzz client check format requirements

help: ## List the targets.
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

run: .venv/run .venv-cloud/ready ## Serve the API at http://127.0.0.1:8000 on the embedded cloud, until Ctrl-C.
	@exec $(BIN)/python -m infra.run

reset: ## Forget what was created with make run.
	@if cd "$${LOCAL_DIR:-.local}" 2>/dev/null; then rm -rf cloud cloud.env env; fi

package: .venv/dev ## Make build/$$STAGE: the Lambda package and its template, checked (STAGE=dev or prod, ARCH=arm64 or x86_64).
	@test -n "$(STAGE)" || { echo "Say which stage: make package STAGE=dev" >&2; exit 1; }
	@$(BIN)/python -m infra.package $(STAGE) $(if $(ARCH),--arch $(ARCH))
	@$(BIN)/cfn-lint build/$(STAGE)/sam.json build/$(STAGE)/translated.json infra/data.yaml $(wildcard infra/pipeline.yaml)

cloud: .venv-cloud/ready ## Deploy the package into an emulated cloud that goes on in the background.
	@$(MAKE) --no-print-directory package STAGE=dev
	@$(BIN)/python -m infra.emulated start

cloud-stop: ## End the emulated cloud.
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m infra.emulated stop; fi

contract: .venv/dev ## Try a deployment against the contract: URL=https://… API_KEY=….
	@CONTRACT_URL="$(URL)" CONTRACT_KEY="$(API_KEY)" $(BIN)/python -m pytest tests/contract

openapi: .venv/dev ## Write the OpenAPI document of what the code offers: chalicelib/openapi.json.
	@$(BIN)/python -m infra.openapi

lint-openapi: infra/openapi/lint/node_modules/.bin/redocly ## Lint the OpenAPI document, with a linter from the npm registry.
	@REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true $< lint \
		--config infra/openapi/lint/redocly.yaml chalicelib/openapi.json

test: .venv/dev .venv-cloud/ready ## Run all tests.
	$(BIN)/python -m pytest -n auto

fuzz: .venv/dev .venv-cloud/ready ## Try the API at random against its document for SECONDS (300); SEED=… repeats a run.
	@$(BIN)/python -m tests.fuzz $(or $(SECONDS),300) $(SEED)

client: .venv/dev ## Generate a Python client from the OpenAPI document into build/client, or into CLIENT.
	@mkdir -p $(CLIENT)
	@PATH="$(CURDIR)/$(BIN):$$PATH" openapi-python-client generate --path chalicelib/openapi.json --config infra/openapi/client.yaml \
		--meta setup --output-path $(CLIENT) --overwrite --fail-on-warning

check: .venv/dev ## Format and lint check, types, import rules.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/dev ## Format the code.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

requirements: .venv/dev ## Pin the newest versions of everything, with hashes.
	for name in requirements requirements-run requirements-dev infra/requirements-cloud; do \
		$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --python-version 3.11 --no-annotate \
			--custom-compile-command "make requirements" $$name.in -o $$name.txt || exit 1; done

infra/openapi/lint/node_modules/.bin/redocly: infra/openapi/lint/package-lock.json
	@command -v npm >/dev/null || { echo "Node.js with npm is needed for the linter: install it" >&2; exit 1; }
	@npm --prefix infra/openapi/lint ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer, with venv, is needed: install it, or name it with PYTHON=…" >&2; exit 1; }
	@echo "Making .venv with $(PYTHON) …"
	@$(PYTHON) -m venv .venv

.venv-cloud/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer, with venv, is needed: install it, or name it with PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -m venv .venv-cloud

.venv/run: requirements-run.txt .venv/bin/python
	@echo "Installing what the API needs …"
	@$(BIN)/python $(INSTALL) -r requirements-run.txt
	@touch $@

.venv/dev: requirements-dev.txt .venv/run
	@echo "Installing what the tests and checks need …"
	@$(BIN)/python $(INSTALL) -r requirements-dev.txt
	@touch $@

.venv-cloud/ready: infra/requirements-cloud.txt .venv-cloud/bin/python
	@echo "Installing the embedded cloud …"
	@.venv-cloud/bin/python $(INSTALL) -r infra/requirements-cloud.txt
	@touch $@
