# Everything a contributor needs. Each target sets up what it needs by itself, in .venv, from PyPI alone.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
# Tests start hundreds of processes: without this, each one would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ARGS ?=
# Tests wait more than they compute.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
IMAGE := dist/rescheduler-image.tar
SOURCES := $(shell find src -type f -not -path '*/__pycache__/*')

.PHONY: help
help: ## show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(READY) ## a simulated cluster in your terminal (ARGS=--forever keeps it running)
	@$(BIN)/rescheduler demo $(ARGS)

.PHONY: test
test: $(READY) ## all everyday tests (ARGS="-k name" to choose)
	@$(BIN)/pytest -n $(WORKERS) --dist worksteal -m "not size and not control_plane" $(ARGS)

.PHONY: test-size
test-size: $(READY) ## tests that take long: large clusters, all of many similar cases, and properties with ten times as many examples, at random
	@$(BIN)/pytest -n auto -m "size and not control_plane" $(ARGS)
	@EXPLORE=10 $(BIN)/pytest -n auto -m "hypothesis and not size and not control_plane" $(ARGS)

.PHONY: full
full: test-size test-web-full e2e-full e2e-nodes-full ## all long parts, before a release: they take hours

.PHONY: explore
explore: $(READY) ## try every property with N times as many examples as it declares, at random (N=100)
	@EXPLORE=$(or $(N),100) $(BIN)/pytest -n auto -m "hypothesis and not control_plane" $(ARGS)

.PHONY: campaign
campaign: $(READY) ## the reliability campaign: N seeds of faults in simulated clusters (N=20, SEED=1; ARGS="--replay 42": one seed)
	@$(BIN)/python -m tests.campaign --seeds $(or $(N),20) --first $(or $(SEED),1) $(ARGS)

.PHONY: mutation
mutation: $(READY) ## change the code at N random places per package and see whether the tests notice (N=100, SEED=1; ARGS="--only NAME")
	@$(BIN)/python -m tools.mutation_check --mutants $(or $(N),100) --seed $(or $(SEED),1) $(ARGS)

.PHONY: soak
soak: $(READY) ## four virtual hours with 1,000 nodes and 30,000 pods: fails if memory, tasks, files or watches grow (ARGS="--hours 1")
	@PYTHONHASHSEED=0 $(BIN)/python -m tests.campaign.soak $(ARGS)

.PHONY: e2e
e2e: $(READY) control-plane helm ## tests on a real control plane, built on first use (COLD=1: with empty caches)
	@folder=$$(mktemp -d) && trap "rm -rf $$folder" EXIT && \
	$(BIN)/pytest -n 2 --dist loadscope --no-loadscope-reorder --basetemp=$$folder/runs \
	  tests/stories/steering tests/e2e tests/stories \
	  -m "(not simulator and not full) or (simulator and kubectl)" $(ARGS) && \
	$(if $(ARGS),true,E2E_FOLDER=$$folder $(BIN)/pytest tests/e2e/test_permissions.py)

.PHONY: e2e-rules
e2e-rules: $(READY) control-plane ## ask the real scheduler about N random pods and nodes (N=20000, SEED=1)
	@N=$(or $(N),20000) SEED=$(or $(SEED),1) $(BIN)/pytest tests/e2e/test_scheduler_truth.py -s

.PHONY: e2e-full
e2e-full: $(READY) peers ## the long parts: more stories, other projects' programs, 30,000 and 150,000 pods, five minutes of busy watches, three rounds of chaos, half an hour of churn
	@$(BIN)/pytest tests/stories tests/e2e -m "full and not simulator" $(ARGS)
	@$(BIN)/python -m bench.read_cluster --pods 30000 --nodes 1000 --repeat 4
	@$(BIN)/python -m bench.read_cluster --pods 150000 --nodes 5000 --repeat 1 --only protobuf
	@$(BIN)/python -m bench.evictions

.PHONY: e2e-churn
e2e-churn: $(READY) control-plane ## only the half hour of churn of e2e-full: 50 nodes, 1,000 pods (MINUTES=30, SEED=21)
	@MINUTES=$(or $(MINUTES),30) $(if $(SEED),SEED=$(SEED)) $(BIN)/pytest tests/e2e/full/test_chaos_rounds.py -k churn $(ARGS)

.PHONY: e2e-nodes-full
e2e-nodes-full: $(READY) node-programs helm $(IMAGE) ## the long tests on real nodes: requests that each way to remove a pod loses
	@$(BIN)/python -m tests.testbed.nodes $(BIN)/pytest tests/e2e_nodes -m full $(ARGS)

.PHONY: e2e-nodes
e2e-nodes: $(READY) node-programs helm $(IMAGE) ## tests on real nodes: containers, Services, our image (needs root; ARGS="-k name")
	@$(BIN)/pytest tests/image
	@$(BIN)/python -m tests.testbed.nodes $(BIN)/pytest tests/e2e_nodes -m "not full" $(ARGS)

.PHONY: traffic
traffic: $(READY) node-programs $(IMAGE) ## measure lost requests on real nodes, and write docs/zero-downtime.md (ARGS="--minutes 60")
	@$(BIN)/python -m tests.testbed.nodes $(BIN)/python -m tests.e2e_nodes.traffic --to tests/e2e_nodes/traffic/measured.jsonl $(ARGS)
	@$(BIN)/python -m tests.e2e_nodes.traffic.traffic_report tests/e2e_nodes/traffic/measured.jsonl docs/zero-downtime.md docs/images/drain-and-move.svg

.PHONY: node-programs
node-programs: ## only build what real nodes need: kubelet, kube-proxy, containerd, CoreDNS
	@$(PYTHON) tests/testbed/build.py nodes

.PHONY: peers
peers: ## build the control plane and the programs of other projects that evict pods: Karpenter, descheduler
	@$(PYTHON) tests/testbed/build.py peers

.PHONY: control-plane
control-plane: ## only build the real control plane: etcd, kube-apiserver, controller manager, scheduler, kubectl
	@$(PYTHON) tests/testbed/build.py

.PHONY: helm
helm: $(READY) ## only build Helm, which tests install the chart with
	@$(BIN)/python -m tests.testbed.helm

.PHONY: conformance-record
conformance-record: $(READY) control-plane ## record what the real API server does in each scenario
	@$(BIN)/python -m tests.conformance record $(ARGS)

.PHONY: testbed-up testbed-down testbed-status
testbed-up: $(READY) control-plane ## start a real control plane and leave it running (NODES=3: with real nodes, needs root)
testbed-down: $(READY) ## stop it
testbed-status: $(READY) ## say whether it runs
testbed-up testbed-down testbed-status:
	@$(BIN)/python -m tests.testbed $(@:testbed-%=%) $(if $(NODES),--nodes $(NODES)) $(ARGS)

.PHONY: check
check: $(READY) ## format, lint, strict types, import contracts, generated files up to date
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tools.configuration_reference --check docs/configuration.md
	@$(BIN)/python -m tools.protobuf_schema --check
	@$(BIN)/python -m tools.scenario_reference --check docs/scenarios.md
	@$(BIN)/python -m tests.conformance report --check docs/conformance.md
	@$(BIN)/python -m tools.reasons_table --check docs/reasons.md
	@$(BIN)/python -m tools.plan_schema --check docs/plan.schema.json
	@$(BIN)/python -m tools.web_page_check
	@$(BIN)/python -m tools.migration_diagrams --check docs/migrations.md
	@$(BIN)/python -m tools.concept_pictures --check docs
	@$(BIN)/python -m tools.api_reference --check docs/api-reference.md
	@$(BIN)/python -m tools.helm_chart --check deploy/helm
	@$(BIN)/python -m tools.permissions_reference --check docs/security.md
	@$(BIN)/python -m tools.web_openapi_file --check web/openapi.json
	@$(BIN)/python -m tools.third_party_notices --check THIRD-PARTY-NOTICES.md

.PHONY: web
web: web/node_modules/.ready ## type-check, lint, test and build the web page into the package (needs Node 20.19 or newer)
	@cd web && npm run --silent types && npm run --silent check && npm run --silent test && npm run --silent build

.PHONY: test-web
test-web: $(READY) web/node_modules/.ready control-plane chromium ## the web page in Chromium, on the simulator and on a real control plane
	@$(BIN)/pytest tests/web -m "not full" -n 2 --dist loadfile $(ARGS)

.PHONY: test-web-full
test-web-full: $(READY) web/node_modules/.ready chromium ## its long parts: an hour of churn, a picture of every view in every size
	@$(BIN)/pytest tests/web -m full $(ARGS)

.PHONY: web-pictures
web-pictures: $(READY) chromium fonts-inter pngquant ## take the pictures of the web page for the docs
	@PICTURES=1 $(BIN)/pytest tests/web/test_screenshots.py $(ARGS)
	@pngquant --force --ext .png --nofs --speed 1 --strip 256 docs/images/web/*.png  # a third of the size; the page has few colors

.PHONY: chromium fonts-inter pngquant
chromium fonts-inter pngquant:
	@scripts/web-tools.sh $@

web/node_modules/.ready: web/package-lock.json
	@scripts/web-tools.sh node
	@cd web && npm ci --no-fund --no-audit
	@touch $@

.PHONY: fix
fix: $(READY) ## format, fix what the linter can fix, and list the rest
	@$(BIN)/ruff check --fix --exit-zero .
	@$(BIN)/ruff format .

.PHONY: generate
generate: $(READY) ## write generated files: wire schema, references, conformance report, picture
	@$(BIN)/python -m tools.protobuf_schema
	@$(BIN)/python -m tools.configuration_reference --write docs/configuration.md
	@$(BIN)/python -m tools.scenario_reference --write docs/scenarios.md
	@$(BIN)/python -m tests.conformance report --write docs/conformance.md
	@$(BIN)/python -m tools.reasons_table --write docs/reasons.md
	@$(BIN)/python -m tools.plan_schema --write docs/plan.schema.json
	@$(BIN)/python -m tools.migration_diagrams --write docs/migrations.md
	@$(BIN)/python -m tools.concept_pictures --write docs
	@$(BIN)/python -m tools.api_reference --write docs/api-reference.md
	@$(BIN)/python -m tools.documented_outputs --write
	@$(BIN)/python -m tools.helm_chart --write deploy/helm
	@$(BIN)/python -m tools.permissions_reference --write docs/security.md
	@$(BIN)/python -m tools.web_openapi_file --write web/openapi.json
	@$(BIN)/python -m tools.third_party_notices --write THIRD-PARTY-NOTICES.md
	@$(BIN)/python tools/demo_picture.py docs/images/demo.svg
	@$(BIN)/python -m tests.e2e_nodes.traffic.traffic_report tests/e2e_nodes/traffic/measured.jsonl docs/zero-downtime.md docs/images/drain-and-move.svg

.PHONY: docs
docs: $(READY) ## build docs/ as a site in dist/docs that needs no network: open dist/docs/index.html
	@scripts/docs.sh "$(PYTHON)" dist/docs
	@$(BIN)/python -m tools.docs_site_check dist/docs

.PHONY: bench
bench: $(READY) ## benchmarks, as ratios against a baseline of the same run
	@$(BIN)/python -m bench.decode
	@$(BIN)/python -m bench.snapshot
	@$(BIN)/python -m bench.rules
	@$(BIN)/python -m bench.planner
	@$(BIN)/python -m bench.scale
	@$(BIN)/python -m bench.maintenance
	@$(BIN)/python -m bench.btrplace $(BTRPLACE)
	@$(BIN)/python -m bench.openb
	@$(BIN)/python -m bench.pending_gpus
	@$(BIN)/python -m bench.migrations
	@$(BIN)/python -m bench.surplus
	@$(BIN)/python -m bench.queued
	@$(BIN)/python -m bench.web_page

.PHONY: lock
lock: $(READY) ## resolve the dependencies again into requirements/*.txt
	@scripts/lock.sh $(BIN)/uv

.PHONY: image
image: $(IMAGE) ## write the image to dist/ as an OCI archive, without a container engine (podman load, ctr images import)

$(IMAGE): $(READY) pyproject.toml README.md LICENSE THIRD-PARTY-NOTICES.md requirements/runtime.txt requirements/debian.txt tools/container_image.py \
		tools/debian_packages.py tools/oci_archive.py $(SOURCES)
	@$(BIN)/python -m tools.container_image --to $@

.PHONY: release
release: $(READY) helm sbom ## write a release to dist/release and install from it: packages, images, chart, kubectl plugin, checksums
	@$(BIN)/python -m tools.release_files --sbom sbom.json --url $(or $(RELEASE_URL),https://rescheduler.dev/releases) $(ARGS)
	@$(BIN)/pytest tests/release

.PHONY: sbom
sbom: ## write sbom.json: what is in the image, as CycloneDX
	@scripts/audit.sh "$(PYTHON)" sbom sbom.json
	@echo "sbom.json: $$(grep -c '"purl"' sbom.json) packages"

.PHONY: audit
audit: ## look up known vulnerabilities of what is in the image (needs pypi.org)
	@scripts/audit.sh "$(PYTHON)" vulnerabilities

.PHONY: setup
setup: $(READY) ## only make .venv ready

.PHONY: clean
clean: ## remove .venv and every cache
	rm -rf $(VENV) .venv-audit .venv-docs dist sbom.json .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last, so an interrupted set-up is done again from the start.
$(READY): pyproject.toml requirements/bootstrap.txt requirements/dev.txt scripts/setup.sh
	@scripts/setup.sh "$(PYTHON)" $(VENV)
	@touch $@
