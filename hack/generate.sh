#!/usr/bin/env bash
# generate.sh: everything that is generated from the Go types of apis/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
controller_gen=$(hack/tools/build.sh controller-gen)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$controller_gen" object paths=./apis/...
"$controller_gen" crd paths=./apis/... "output:crd:dir=$work"
go run ./hack/xrdgen "$work/dirsrv.operator.port389.org_directoryservices.yaml" apis
cp "$work/directoryservice.fn.crossplane.io_inputs.yaml" package/function/input/
go run ./hack/docgen >"$work/reference.md"
cp "$work/reference.md" docs/reference.md
gofmt -l apis cmd fn hack test | { ! grep .; }
