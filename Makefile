.DEFAULT_GOAL := help
SHELL := /bin/sh

# The machine's own if it is Python 3.11 or newer, else the newest. What goes to the cloud names its own (docs/settings.md).
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
BIN := .venv/bin

# This file, also where a folder on its path has a space in its name: make's own functions take that for two files.
space := $() $()
THIS := $(subst |,,$(subst |$(space),,|$(MAKEFILE_LIST)))

# The machine that a package is for: arm64 or x86_64; empty for this one.
ARCH ?=

# How requirements are pinned; each file of them repeats it, for Dependabot.
COMPILED := --universal --python-version 3.11

# What GET /openapi.json sends: a build product, made of the code.
OPENAPI := chalicelib/documents/openapi.json

# What GET /docs sends: a build product, made of the OpenAPI document and of the conventions.
DOCS := chalicelib/documents/docs.html

# What clients in TypeScript and Go are generated with: each is pinned in a folder or an environment of its own.
TYPESCRIPT := infra/build/clients/typescript
GENERATOR := .venv-clients/lib/python3*/site-packages/openapi_generator_cli/openapi-generator.jar

# For a registry that is dead or silent npm waits for minutes: it is asked first, unless all is on this machine already.
define NPM_CI
{ command -v node && command -v npm; } >/dev/null || { echo "Node.js 20 or newer, with npm, is missing, which $(2): install it." >&2; exit 1; }; \
	echo "Fetching what $(2), with npm …"; cd $(1); ci="npm ci --ignore-scripts --no-audit --no-fund --silent"; $$ci --offline || { \
	npm ping --fetch-retries=0 --fetch-timeout=4000 >/dev/null 2>&1 || { echo "The registry of npm's packages could not be reached" \
	"for what $(2): check that this machine is connected, then run make again." >&2; exit 1; }; $$ci; }
endef

.PHONY: help run edge reset package cloud cloud-stop rehearsal contract openapi cli terraform test test-again fuzz client-python \
	client-typescript client-go test-clients bench bench-profile check docs screenshot stubs format requirements \
	advisories

help: ## List the targets.
	@grep -E '^[a-z-]+:.*## ' "$(THIS)" | sed 's/:.*## /\t/' | expand -t 14

run: .venv/run .venv-cloud/ready $(DOCS) ## Serve the API at http://127.0.0.1:8000 on the embedded cloud, until Ctrl-C.
	@END_WITH=$$PPID exec $(BIN)/python -m infra.local.run

edge: .venv-edge/ready ## Serve tunnels beside a running make run, or on the cloud that the environment names, until Ctrl-C.
	@if [ -z "$$AWS_ENDPOINT_URL$$LOCALSTACK_HOST$$TABLE_NAME" ] && [ -f "$${LOCAL_DIR:-.local}/cloud.env" ]; then \
		. "$${LOCAL_DIR:-.local}/cloud.env"; fi; exec .venv-edge/bin/python -m edge

reset: ## Forget what was created with make run.
	@PYTHONPATH="$$(dirname "$(THIS)")" "$(or $(wildcard $(BIN)/python),$(PYTHON),python3)" -m infra.local.reset

package: .venv/dev $(DOCS) ## Make build/$STAGE: the Lambda package and its template, checked (STAGE=dev or prod, ARCH=arm64 or x86_64).
	@test -n "$(STAGE)" || { echo "STAGE is not set: name the stage, for example make package STAGE=dev" >&2; exit 1; }
	@$(BIN)/python -m infra.deploy.package $(STAGE) $(if $(ARCH),--arch $(ARCH))

cloud: .venv/dev .venv-cloud/ready ## Deploy the package into an emulated cloud that goes on in the background.
	@$(BIN)/python -m infra.local.emulated check
	@$(MAKE) --no-print-directory package STAGE=dev ARCH=
	@$(BIN)/python -m infra.local.emulated start

cloud-stop: ## End the emulated cloud.
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m infra.local.emulated stop; fi

rehearsal: .venv/dev .venv-cloud/ready ## Upgrade FROM (1.0.0, 2.0.0 or d3f2e57) to this version and back in an emulated cloud, under load: half an hour.
	@$(MAKE) --no-print-directory package STAGE=dev ARCH=
	@$(BIN)/python -m tests.cloud.rehearsal $(or $(FROM),1.0.0) \
		$(if $(RESOURCES),--resources $(RESOURCES)) $(if $(CLIENTS),--clients $(CLIENTS))

contract: export CONTRACT_URL = $(URL)
contract: export CONTRACT_KEY = $(API_KEY)
contract: .venv/dev ## Try a deployment against the contract, or parts of it: URL=https://… API_KEY=… SUITE=….
	@test -n "$$CONTRACT_URL" && test -n "$$CONTRACT_KEY" || \
		{ echo "URL or API_KEY is not set: name the deployed API and an API key, make contract URL=https://… API_KEY=…" >&2; exit 1; }
	@$(BIN)/python -m pytest $(or $(SUITE),tests/contract)

openapi: .venv/dev ## Write the OpenAPI document, and docs/api.txt, the table of routes and the table of records, which are committed.
	@$(BIN)/python -m infra.build.openapi --list
	@$(BIN)/python -m infra.build.records
	@$(BIN)/python -m infra.build.route_table

cli: .venv/dev .venv-cli/ready $(OPENAPI) ## Make build/cli: the wheel of the command line, twice, and compare the two.
	@$(BIN)/python -m infra.build.cli

terraform: .venv/dev .venv-terraform/ready $(OPENAPI) ## Make build/terraform: the wheel of the Terraform provider, twice, and a folder of plugins.
	@$(BIN)/python -m infra.build.terraform

test: .venv/dev .venv-cloud/ready .venv-cli/ready .venv-terraform/ready $(DOCS) ## Run all tests that the machine can run, and say which it cannot.
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto # else each program that they start is compiled anew

test-again: .venv/dev .venv-cloud/ready .venv-cli/ready .venv-terraform/ready ## Run at most three tests that failed last once more, one by one, and list them.
	@$(BIN)/python -m tests.again

fuzz: .venv/dev .venv-cloud/ready $(DOCS) ## Try the API at random against its document for SECONDS (300); SEED=… repeats a run.
	@$(BIN)/python -m tests.fuzz $(or $(SECONDS),300) $(SEED)

client-python client-typescript client-go: CLIENT ?= build/$@

client-python: .venv/dev $(OPENAPI) ## Generate a Python client from the OpenAPI document into build/client-python, or into CLIENT, with its wheel.
	@mkdir -p "$(CLIENT)"
	@PATH="$(CURDIR)/$(BIN):$$PATH" openapi-python-client generate --path $(OPENAPI) \
		--config infra/build/clients/python.yaml --meta setup --output-path "$(CLIENT)" --overwrite --fail-on-warning
	@$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$(CLIENT)/dist" "$(CLIENT)"
	@rm -rf "$(CLIENT)"/build "$(CLIENT)"/*.egg-info

client-typescript: $(TYPESCRIPT)/node_modules/ready $(OPENAPI) ## Generate a TypeScript client into build/client-typescript, or into CLIENT.
	@mkdir -p "$(CLIENT)"
	@$(TYPESCRIPT)/node_modules/.bin/openapi-typescript $(OPENAPI) --output $(TYPESCRIPT)/src/schema.ts >/dev/null
	@$(TYPESCRIPT)/node_modules/.bin/tsc --project $(TYPESCRIPT) --outDir "$(CLIENT)/dist"
	@cp $(TYPESCRIPT)/package.json "$(CLIENT)"

# Any other warning is an error: these two tell that it reads OpenAPI 3.1, and a null beside a reference.
client-go: .venv-clients/ready $(OPENAPI) ## Generate a Go client into build/client-go, or into CLIENT.
	@command -v java >/dev/null || { echo "Java is needed for the generator of the Go client: install it." >&2; exit 1; }
	@java -Dlog.level=warn -jar $(GENERATOR) generate --generator-name go --input-spec $(OPENAPI) --output "$(CLIENT)" \
		--package-name tunneledge --global-property apis,models,supportingFiles,apiTests=false,modelTests=false \
		| (! grep WARN | grep -v -e "OpenAPI 3.1 support is still in beta" -e "Failed to get the schema name: null")
	@sed -i 's|^module .*|module tunneledge|; s|^go .*|go 1.19|' "$(CLIENT)/go.mod"
	@rm -f "$(CLIENT)/git_push.sh" "$(CLIENT)/.travis.yml"

test-clients: .venv/dev .venv-cloud/ready .venv-clients/ready $(TYPESCRIPT)/node_modules/ready $(DOCS) ## Compile the three clients, and have each do everything.
	$(BIN)/python -m pytest tests/clients

bench: .venv/bench .venv/peer .venv-cloud/ready .venv-edge/ready bench/node_modules/ready ## Measure all figures (KEEP=yes stores the table in bench/).
	@$(MAKE) --no-print-directory package STAGE=dev
	@$(BIN)/python -m bench $(if $(KEEP),--keep)

bench-profile: .venv/bench .venv-cloud/ready .venv-edge/ready bench/node_modules/ready ## Draw where the time of FIGURES (cold_start warm) goes: build/bench/profile.svg.
	@$(MAKE) --no-print-directory package STAGE=dev >/dev/null
	@mkdir -p build/bench
	@$(BIN)/py-spy record --subprocesses --output build/bench/profile.svg -- $(BIN)/python -m bench $(or $(FIGURES),cold_start warm)

check: .venv/dev stubs ## Format and lint check, types, import rules, sizes and language.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=cli:terraform $(BIN)/lint-imports
	$(BIN)/python -m pytest tests/readability

stubs: .venv/dev ## Generate the types of Envoy's messages into build/stubs, for mypy.
	@$(BIN)/python -m infra.build.stubs

docs: $(DOCS) ## Make the page that GET /docs sends.

screenshot: .venv/dev $(DOCS) ## Take the README's picture of that page.
	@$(BIN)/python -m infra.build.browser

format: .venv/dev ## Format the code.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

requirements: .venv/dev ## Pin the newest versions of everything, with hashes.
	for name in requirements requirements/run requirements-dev $(patsubst %.in,%,$(filter-out %/run.in,$(wildcard requirements/*.in))); do \
		$(BIN)/uv pip compile --quiet --upgrade $(COMPILED) --generate-hashes --no-annotate \
			--custom-compile-command "make requirements, which is: uv pip compile $(COMPILED)" $$name.in -o $$name.txt || exit 1; done

advisories: ## Look for known advisories of all that is pinned.
	@"$(PYTHON)" -m infra.advisories

# Packages are for the Python of .venv, and the embedded cloud runs them with that of .venv-cloud.
ifneq ($(filter-out help reset cloud-stop advisories,$(or $(MAKECMDGOALS),help)),)
version = $(or $(shell "$(1)" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null),none)
VERSIONS := $(filter-out none,$(foreach made,$(wildcard .venv/bin/python .venv-cloud/bin/python),$(call version,$(made))))
ifneq ($(origin PYTHON),file)
ifeq ($(call version,$(PYTHON)),none)
$(error PYTHON=$(PYTHON) cannot be run: install it, or name another Python with PYTHON=…)
endif
VERSIONS += $(call version,$(PYTHON))
endif
ifneq ($(word 2,$(sort $(VERSIONS))),)
$(error .venv and .venv-cloud are not of one Python, the one that PYTHON names: make cloud-stop, then remove both)
endif
endif

$(OPENAPI): $(foreach depth,* */* */*/*,$(wildcard chalicelib/$(depth).py)) $(wildcard infra/build/openapi/*.*) | .venv/run
	@$(BIN)/python -m infra.build.openapi

$(DOCS): $(OPENAPI) docs/conventions.md $(wildcard infra/build/docs/*.*) | .venv/run
	@$(BIN)/python -m infra.build.docs

.venv/run: requirements/run.txt
.venv/dev: requirements-dev.txt
.venv/bench: requirements/bench.txt | .venv/dev
.venv-cloud/ready: requirements/cloud.txt
.venv-edge/ready: requirements/edge.txt
.venv-cli/ready: requirements/cli.txt
.venv-clients/ready: requirements/clients.txt
.venv-terraform/ready: requirements/terraform.txt

# What is needed beside it is fetched at the same time.
run cloud test fuzz test-clients: BESIDE := .venv-cloud/ready
test: BESIDE += .venv-cli/ready .venv-terraform/ready

.venv/run .venv/dev .venv/bench .venv-cloud/ready .venv-edge/ready .venv-cli/ready .venv-clients/ready .venv-terraform/ready:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer, with venv, is needed: install it, or name it with PYTHON=…" >&2; exit 1; }
	@"$(PYTHON)" -m infra.environments $@ $(BESIDE)

# Optional: the benchmarks say where it is missing.
.venv/peer: requirements/peer.txt | .venv/dev
	@"$(PYTHON)" -m infra.environments $@ || echo "The benchmarks run without the peer, and mark the rows that need it." >&2

bench/node_modules/ready: bench/package-lock.json
	@$(call NPM_CI,bench,the benchmarks need)
	@touch $@

$(TYPESCRIPT)/node_modules/ready: $(TYPESCRIPT)/package-lock.json
	@$(call NPM_CI,$(TYPESCRIPT),the TypeScript client needs)
	@touch $@
