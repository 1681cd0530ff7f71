# One line per chore. `make test` and `make demo` do all of their own set-up.
SHELL := bash
export UV_PYTHON_DOWNLOADS := never
export UV_SYSTEM_CERTS := 1
BIN := .venv/bin
EPOCH = $(shell git log -1 --format=%ct 2>/dev/null || echo 315532800)
ASSEMBLER = PYTHONPATH=packaging/image $(BIN)/python -m stoker_image
NODE = $(BIN)/python -m stoker.testing.node.unshare
PYTEST := $(BIN)/coverage run -m pytest -n 2 --dist loadgroup

.PHONY: test test-again lint unit coverage test-long test-crash test-model demo demo-cluster e2e soak node-ready test-e2e test-stories bench bench-kube bench-sync bench-agent bench-controller bench-reverse bench-delivery bench-scale bench-dashboard verify generate docs build image image-lock sbom test-image assets clean help

test: lint unit coverage            ## Lint, types, layers, all tests but the long ones, coverage

lint: .venv/ready                   ## Style (ruff), types (mypy strict), layers (import-linter)
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy && $(BIN)/lint-imports --no-logo

unit: assets                        ## Unit, property, integration, crash and hostile tests
	$(BIN)/coverage erase && $(PYTEST) -m "not long and not node" tests

test-again: .venv/ready             ## What failed last time, one after the other
	$(BIN)/pytest --last-failed --last-failed-no-failures none tests

coverage: .venv/ready               ## At least 90 % of domain, api and kube must be shown by tests
	scripts/coverage-floor 90 domain api kube

test-long: assets                   ## The long suites, whole, and the laws over new examples
	$(BIN)/pytest -n 2 -m long tests && HYPOTHESIS_PROFILE=explore $(BIN)/pytest -n 2 tests/property

test-crash: .venv/ready             ## A kill and a broken disk at every turn of every failpoint
	$(BIN)/pytest -n 2 -m long tests/crash

test-model: assets                  ## Random histories: 500 of the reverser, 1,000 of the way back; SEEDS=120-129 plays those alone
	STOKER_SEEDS=$(SEEDS) $(BIN)/pytest -n 2 --dist loadgroup -m long tests/e2e/test_reverser_model.py tests/e2e/test_bidirectional_model.py

demo: .venv/ready                   ## A story in four acts, both directions, each step real
	$(BIN)/stoker demo

demo-cluster: .venv/ready           ## The same story with the whole operator and five gateways
	$(BIN)/stoker demo --operator

test-stories: assets                ## The operator's stories, all of them
	$(BIN)/pytest tests/e2e/test_operator_stories.py

test-e2e: assets                    ## Real processes, end to end; all random histories are in test-model
	$(BIN)/pytest tests/e2e -k "not every_history"

e2e: node-ready                     ## The stories on a real node with our image; without containers where there can be none
	$(NODE) $(BIN)/pytest -s -v -n 0 -m node tests/node

soak: node-ready                    ## SOAK_MINUTES (30) on the real node with faults: no lost change, flat memory
	$(NODE) $(BIN)/python bench/soak.py

bench: bench-kube bench-sync bench-agent bench-controller bench-reverse bench-delivery bench-scale bench-dashboard ## Every benchmark

bench-kube: assets                  ## The Kubernetes runtime beside the official client
	$(BIN)/python bench/kube.py

bench-sync: .venv/ready             ## Git to a folder beside git with rsync, on tmpfs and on disk
	$(BIN)/python bench/sync.py

bench-agent: assets                 ## From a changed map to files and scan, an idle agent, 100 agents
	$(BIN)/python bench/agent.py

bench-reverse: assets               ## From a rule or a change in the cluster to the push, beside kubectl and git
	$(BIN)/python bench/reverser.py

bench-controller: assets            ## 500 resources with 1,000 gateways, at rest and from webhook to map
	$(BIN)/python bench/controller.py

bench-scale: assets                 ## How cost grows to 500 resources, 1,000 gateways and 20,000 objects, within the chart's limits
	$(BIN)/python bench/scale.py

bench-dashboard: assets             ## The dashboard with 1,000 gateways in a real browser: first paint, a change, a storm
	$(BIN)/python bench/dashboard.py

bench-delivery: .venv/ready         ## Safe delivery: snapshots beside tar, the way back
	$(BIN)/python bench/delivery.py

docs: .venv/ready                   ## The documentation as a site in dist/site, looked at for links that lead nowhere
	$(BIN)/python scripts/site

verify: docs                        ## Fail when a generated file is stale or the site has a fault
	$(BIN)/python -m stoker.api.codegen.generate --check && $(BIN)/python scripts/chart-readme --check && $(BIN)/python scripts/log-reference --check

generate: .venv/ready               ## Write CRDs, chart files and reference pages
	$(BIN)/python -m stoker.api.codegen.generate && $(BIN)/python scripts/chart-readme && $(BIN)/python scripts/log-reference

build: .venv/ready                  ## The wheel, in dist/; the same source gives the same bytes
	rm -f dist/*.whl && SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/uv build --wheel --quiet && ls dist/*.whl

image: build                        ## The container image as an OCI archive, in dist/; ARCH=arm64 for the other one
	SOURCE_DATE_EPOCH=$(EPOCH) $(ASSEMBLER) image --wheel dist/stoker-*.whl $(if $(ARCH),--arch $(ARCH))

image-lock: .venv/ready             ## Bring the image's Debian packages up to date
	$(ASSEMBLER) lock

sbom: image                         ## What is inside the image, as SPDX, in dist/
	cp dist/stoker-image-$(or $(ARCH),$(shell dpkg --print-architecture)).spdx.json dist/sbom.spdx.json

test-image: image                   ## The image: twice the same, and ssh, git and windows as users without a name
	$(BIN)/pytest -n 0 -m long tests/integration/packaging/test_image.py

assets: .venv/ready                 ## Build what is missing of the cluster binaries; the last line is their folder
	@scripts/setup-browser
	$(BIN)/python -m stoker.testing.assets.ensure_binaries

node-ready: assets                  ## What a real node needs, where this machine can run one: packages, binaries, our image
	@scripts/setup-node; if $(BIN)/python -m stoker.testing.node.preflight; then $(MAKE) --no-print-directory image; fi

clean:                              ## Remove what was built here; caches outside the repository stay
	rm -rf .venv dist build .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis

help:                               ## This list
	@grep -E '^[a-z0-9 -]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

.venv/ready: uv.lock pyproject.toml scripts/setup
	@scripts/setup
