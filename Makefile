# `make help` lists the targets. Each does its own set-up.
SHELL := bash
export UV_PYTHON_DOWNLOADS := never
export UV_SYSTEM_CERTS := 1
# Tests start hundreds of processes; without cached bytecode each of them compiles the product anew.
unexport PYTHONDONTWRITEBYTECODE
BIN := .venv/bin
EPOCH = $(shell git log -1 --format=%ct 2>/dev/null || echo 315532800)
ASSEMBLER = PYTHONPATH=packaging/image $(BIN)/python -m stoker_image
NODE = $(BIN)/python -m stoker_testkit.node.unshare
SHORT := -m "not long and not node"

.PHONY: test test-all lint style types test-fast test-rest coverage test-python test-long test-crash test-model fuzz mutants demo demo-cluster e2e soak node-ready test-e2e test-stories bench bench-kube bench-sync bench-agent bench-controller bench-reverser bench-delivery bench-scale bench-dashboard verify generate docs build image image-all image-lock push-image package-chart push-chart offline-bundle release-version sign-image publish-release sbom test-image test-packages assets clean help

test: style                         ## Proves the main job: style, types, layers, all tests that need no built server
	@$(MAKE) --no-print-directory --jobs=2 types test-fast

test-all: assets test-rest coverage ## Everything else: real API server, forge, object store, helm, Chromium, docs; coverage

demo: .venv/ready                   ## Two gateways follow a repository: a push, a change by hand, a bad commit
	@$(BIN)/stoker demo

demo-cluster: .venv/ready           ## The whole operator on a real control plane, in both directions
	@$(BIN)/stoker demo --cluster

lint: style types                   ## Style (ruff), types (mypy strict), layers (import-linter)

style: .venv/ready
	$(BIN)/ruff format --check . && $(BIN)/ruff check .

types: .venv/ready
	$(BIN)/mypy && $(BIN)/lint-imports --no-logo

test-fast: .venv/ready test-packages ## Unit, property, hostile and standalone tests; smoke tests where a control plane is found
	STOKER_BUILD=never $(BIN)/pytest -n 3 --tier=fast $(SHORT) tests

test-rest: .venv/ready test-packages ## The tests of test-all; assets must be there
	$(BIN)/pytest -n 4 --tier=rest $(SHORT) tests

coverage: .venv/ready test-packages ## At least 90 % of domain, api, engine, fs, git and kube are run by their tests
	$(BIN)/coverage erase && STOKER_BUILD=never $(BIN)/coverage run -m pytest -n 3 --tier=fast $(SHORT) tests/unit tests/property tests/hostile tests/integration/git
	scripts/coverage-floor 90 domain api engine fs git kube

test-python: .venv/ready test-packages ## Unit, property and hostile tests with another interpreter: PYTHON=python3.13
	scripts/test-python $(PYTHON)

test-long: assets                   ## The long suites, whole, and the laws over new examples
	$(BIN)/pytest -n 2 -m long tests && HYPOTHESIS_PROFILE=explore $(BIN)/pytest -n 2 tests/property

test-crash: .venv/ready             ## A kill and a broken disk at every turn of every failpoint
	$(BIN)/pytest -n 2 -m long tests/crash

test-model: assets                  ## Random histories: 500 of the reverser, 1,000 of bidirectional sync; SEEDS=120-129 runs those alone
	STOKER_SEEDS=$(SEEDS) $(BIN)/pytest -n 2 -m long tests/e2e/test_reverser_model.py tests/e2e/test_bidirectional_model.py

mutants: .venv/ready test-packages  ## Which changes of the code no test notices; MODULES=fs/lock,engine/plan SAMPLE=50 SEED=2
	@PYTHONPATH=tools $(BIN)/python -m mutants $(if $(MODULES),--modules $(MODULES)) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED))

test-stories: assets                ## The operator's stories, all of them
	$(BIN)/pytest tests/e2e/test_operator_stories.py

test-e2e: assets                    ## Real processes, end to end; all random histories are in test-model
	$(BIN)/pytest tests/e2e -k "not every_history"

e2e: node-ready                     ## The stories on a real node with our image; without containers where there can be none
	$(NODE) $(BIN)/pytest -s -v -n 0 -m node tests/node

soak: node-ready                    ## SOAK_MINUTES (30) on the real node with faults: no lost change, flat memory
	$(NODE) $(BIN)/python bench/soak.py

bench: bench-kube bench-sync bench-agent bench-controller bench-reverser bench-delivery bench-scale bench-dashboard ## Every benchmark

bench-kube: assets                  ## The Kubernetes runtime beside the official client
	$(BIN)/python bench/kube.py

bench-sync: .venv/ready             ## Git to a folder beside git with rsync, on tmpfs and on disk
	$(BIN)/python bench/sync.py

bench-agent: assets                 ## From a changed ConfigMap to files and scan, an idle agent, 100 agents
	$(BIN)/python bench/agent.py

bench-reverser: assets              ## From a rule or a change in the cluster to the push, beside kubectl and git
	$(BIN)/python bench/reverser.py

bench-controller: assets            ## 500 resources with 1,000 gateways, at rest and from webhook to ConfigMap
	$(BIN)/python bench/controller.py

bench-scale: assets                 ## How cost grows to 500 resources, 1,000 gateways and 20,000 objects, within the chart's limits
	$(BIN)/python bench/scale.py

bench-dashboard: assets             ## The dashboard with 1,000 gateways in a real browser: first paint, a change, a storm
	$(BIN)/python bench/dashboard.py

bench-delivery: .venv/ready         ## Safe delivery: snapshots beside tar, rollback, bidirectional sync
	$(BIN)/python bench/delivery.py

docs: .venv/ready                   ## The documentation as a site in dist/site, looked at for links that lead nowhere
	$(BIN)/python scripts/site

FUZZ_MINUTES ?= 10
fuzz: .venv/ready                   ## FUZZ_MINUTES (10) of coverage-guided fuzzing: everything that parses foreign bytes
	$(BIN)/uv run --frozen --isolated --all-extras --group fuzz --quiet python tests/fuzz/run.py --minutes $(FUZZ_MINUTES)

verify: docs                        ## Fail when a generated file is stale or the site has a fault
	$(BIN)/python -m stoker.api.codegen.generate --check && $(BIN)/python scripts/chart-readme --check && $(BIN)/python scripts/log-reference --check

generate: .venv/ready               ## Write CRDs, chart files and reference pages
	$(BIN)/python -m stoker.api.codegen.generate && $(BIN)/python scripts/chart-readme && $(BIN)/python scripts/log-reference

build: .venv/ready                  ## The wheels of the product and of the testkit, in dist/; the same source gives the same bytes
	rm -f dist/*.whl && SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/uv build --wheel --all-packages --quiet && ls dist/*.whl

image: build                        ## The container image as an OCI archive, in dist/; ARCH=arm64 for the other one
	SOURCE_DATE_EPOCH=$(EPOCH) $(ASSEMBLER) image --wheel dist/stoker-*.whl $(if $(ARCH),--arch $(ARCH))

image-all: build                    ## Both archives, and dist/stoker-image.tar with both under one index, which a release pushes
	for arch in amd64 arm64; do SOURCE_DATE_EPOCH=$(EPOCH) $(ASSEMBLER) image --wheel dist/stoker-*.whl --arch $$arch || exit; done
	SOURCE_DATE_EPOCH=$(EPOCH) $(ASSEMBLER) join

push-image:                         ## Push dist/stoker-image.tar as it is: IMAGE=registry/name:tag (skopeo, jq)
	@scripts/push-image "$$IMAGE"

package-chart: .venv/ready          ## The chart as dist/stoker-VERSION.tgz, with the image that it installs: IMAGE=registry/name
	@scripts/package-chart "$$IMAGE"

push-chart: .venv/ready             ## Push dist/stoker-VERSION.tgz as an OCI artifact: CHARTS=registry/folder
	@scripts/push-chart "$$CHARTS"

offline-bundle: .venv/ready         ## dist/stoker-offline-VERSION.tar: wheels, image, chart, checksums and a script that installs
	@scripts/offline-bundle

release-version:                    ## TAG is the version of the source
	@scripts/release-version "$$TAG"

sign-image:                         ## Sign what was pushed to IMAGE=registry/name, attach the lists of contents (cosign, jq)
	@scripts/sign-image "$$IMAGE"

publish-release:                    ## The release TAG with the files of dist/ and signed checksums (cosign, gh)
	@scripts/publish-release "$$TAG"

image-lock: .venv/ready             ## Bring the image's Debian packages up to date
	$(ASSEMBLER) lock

sbom: image                         ## What is inside the image, as SPDX, in dist/
	cp dist/stoker-image-$(or $(ARCH),$(shell dpkg --print-architecture)).spdx.json dist/sbom.spdx.json

test-image: image                   ## The image: pushed as built, twice the same, and ssh, git and windows as users without a name
	@scripts/install-packages skopeo:skopeo jq:jq
	$(BIN)/pytest -n 0 -m long tests/integration/packaging/test_push_image.py tests/integration/packaging/test_image.py

test-packages:                      # Debian packages that the tests run: an ssh server, ssh and gpg
	@scripts/install-packages sshd:openssh-server ssh-keygen:openssh-client gpg:gnupg

assets: .venv/ready                 ## Build what is missing of the servers that tests run; the last line is their folder
	@command -v google-chrome >/dev/null || scripts/install-packages chromium:chromium,fonts-dejavu-core
	@scripts/install-packages gcc:gcc,libc6-dev
	$(BIN)/python -m stoker_testkit.assets.ensure_binaries

node-ready: assets                  ## What a real node needs, where this machine can run one: packages, binaries, our image
	@scripts/setup-node; if $(BIN)/python -m stoker_testkit.node.preflight; then $(MAKE) --no-print-directory image; fi

clean:                              ## Remove what was built here; caches outside the repository stay
	rm -rf .venv .venv-* dist build .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis

help:                               ## This list
	@grep -E '^[a-z0-9 -]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

.venv/ready: uv.lock pyproject.toml testkit/pyproject.toml scripts/setup
	@scripts/setup
