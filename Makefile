# Everything that the README and CI call. `make help` lists it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The image (a Crossplane package) that an installation pulls.
IMG ?= ghcr.io/389ds/function-directoryservice:v0.1.0
# The flavour of the API: namespaced (an XR) or claim.
FLAVOUR ?= namespaced
CONTAINER_TOOL ?= docker
# What `make render` renders.
XR ?= examples/minimal.yaml
VERSION ?= $(lastword $(subst :, ,$(IMG)))

export GOFLAGS ?= -buildvcs=false
TOOL := hack/tools/build.sh

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-zA-Z0-9_-]+:.*## /{printf "%-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Build

.PHONY: setup
setup: ## Build the pinned tools that `make render` and `make test` use (kept in ~/.cache).
	$(TOOL) crossplane-core
	$(TOOL) crossplane
	$(TOOL) controller-gen
	$(TOOL) golangci-lint
	go build ./...

.PHONY: build
build: ## Build bin/directoryservice.
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION) -X main.agentImage=$(IMG)" -o bin/directoryservice ./cmd/directoryservice

.PHONY: generate
generate: ## Generate deepcopy functions, both XRDs, the input's CRD and docs/reference.md from the Go types.
	hack/generate.sh

.PHONY: docker-build
docker-build: ## Build the function's runtime image, IMG-runtime.
	$(CONTAINER_TOOL) build --build-arg VERSION=$(VERSION) --build-arg IMG=$(IMG) -t $(IMG)-runtime .

.PHONY: docker-push
docker-push: ## Make the Crossplane package IMG of IMG-runtime, and push it.
	mkdir -p dist
	$$($(TOOL) crossplane) xpkg build --package-root=package/function --embed-runtime-image=$(IMG)-runtime --package-file=dist/function.xpkg
	$$($(TOOL) crossplane) xpkg push --package-files=dist/function.xpkg $(IMG)

.PHONY: build-installer
build-installer: ## Write dist/install.yaml: XRD, Composition, Function IMG and ClusterRole, for FLAVOUR.
	hack/installer.sh $(FLAVOUR) $(IMG)

##@ Use

.PHONY: render
# By the environment: a file name may hold anything but a newline.
render: export XR := $(XR)
render: export OBSERVED := $(OBSERVED)
render: export REQUIRED := $(REQUIRED)
render: export FLAVOUR := $(if $(filter-out default undefined file,$(origin FLAVOUR)),$(FLAVOUR),)
render: export COMPOSITION := $(COMPOSITION)
render: export NOW := $(NOW)
render: export CALLS := $(CALLS)
render: ## Print what Crossplane makes of XR=FILE [OBSERVED= REQUIRED= FLAVOUR=namespaced|claim COMPOSITION= NOW=TIME CALLS=1], offline (default: examples/minimal.yaml).
	@go run ./hack/render

##@ Check

.PHONY: test
test: ## Run the unit, golden and fuzz-seed tests with the race detector.
	go vet ./...
	go test -race ./...

.PHONY: test-histories
test-histories: ## Hold HISTORIES (default 100000) random histories of upgrades against the model, from SEED (default: the time).
	go test -count=1 -timeout 60m -v -run TestHistories ./fn/upgrade -histories $${HISTORIES:-100000} -seed $${SEED:-$$(date +%s)}

.PHONY: test-mutations
test-mutations: ## Break each rule of upgrades once and see the model notice.
	go run ./test/mutation

.PHONY: golden
golden: ## Rewrite the golden cases, what they begin with and what comes out, below test/render and examples/upgrade.
	go test -count=1 ./test/render -run TestFixtures -update
	go test -count=1 ./test/render -run TestGolden -update

.PHONY: test-render
test-render: ## Hold the golden cases through the real Crossplane CLI and core.
	$(TOOL) crossplane-core >/dev/null
	$(TOOL) crossplane >/dev/null
	go test -count=1 -tags engine -run TestEngine ./test/render

.PHONY: validate
validate: ## Validate the examples and the packages with `crossplane resource validate`.
	hack/validate.sh

.PHONY: test-controlplane
test-controlplane: ## Run both flavours on a real etcd, kube-apiserver, kube-controller-manager and Crossplane.
	for t in etcd kube-apiserver kube-controller-manager kubectl crane crossplane crossplane-core; do $(TOOL) $$t >/dev/null; done
	go test -count=1 -timeout 45m -tags controlplane -v ./test/controlplane/...

.PHONY: trees
trees: ## Build the trees with real servers that `make test-ldap` uses: Debian bookworm, trixie and sid (root; 2-10 minutes, once).
	for s in bookworm trixie sid; do hack/trees/build.sh $$s; done

.PHONY: test-ldap
test-ldap: trees ## Run the agent above real 389 Directory Servers 2.3.1, 3.1.2 and 3.3.1 (root).
	for t in etcd kube-apiserver; do $(TOOL) $$t >/dev/null; done
	go test -count=1 -timeout 45m -tags ldap -v ./test/ldap/...

.PHONY: fuzz
fuzz: ## Fuzz RunFunction for FUZZTIME (default 1m).
	go test -run '^$$' -fuzz FuzzRunFunction -fuzzminimizetime 1s -fuzztime $${FUZZTIME:-1m} ./fn

.PHONY: bench
bench: ## Run the benchmarks; then the CPU of a call beside that of a function which only echoes.
	go test -run '^$$' -bench . ./test/bench/...
	go run ./test/bench/ratio

.PHONY: lint
lint: ## Run golangci-lint.
	$$($(TOOL) golangci-lint) run ./...

.PHONY: check-generated
check-generated: generate ## Fail where generated files are stale.
	git diff --exit-code -- apis package docs/reference.md
