#!/usr/bin/env bash
# validate.sh: what `crossplane resource validate` says of every example, in both flavours, and of
# our own Crossplane objects, and of all that the examples are rendered to. No network: the schemas are the XRDs here and Crossplane's own CRDs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
crossplane=$(hack/tools/build.sh crossplane)
crds=$(go -C hack/tools/crossplane list -m -f '{{.Dir}}' github.com/crossplane/crossplane/v2)/cluster/crds
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT

# An empty image keeps the CLI from pulling Crossplane's CRDs.
validate() { "$crossplane" resource validate --crossplane-image= --cache-dir="$cache" --error-on-missing-schemas "$@"; }

# rendered FLAVOUR: what `make render` makes of the environment. Results are the renderer's, not objects.
rendered() {
	FLAVOUR=$1 go run ./hack/render |
		awk 'BEGIN { RS = "---\n" } /kind: Result/ { next } { printf "---\n%s", $0 }' |
		validate "apis/$1/definition.yaml,$crds" -
}

for flavour in namespaced claim; do
	validate "$crds" "apis/$flavour/definition.yaml"
	validate "$crds" "compositions/$flavour.yaml"
	for example in examples/*.yaml; do
		echo "# $example ($flavour)"
		validate "apis/$flavour/definition.yaml" "$example"
		XR=$example rendered "$flavour"
	done
done
for stage in examples/upgrade/*/; do
	echo "# $stage"
	validate apis/namespaced/definition.yaml "${stage}xr.yaml"
	XR=${stage}xr.yaml OBSERVED=${stage}observed.yaml REQUIRED=${stage}required.yaml NOW=2026-07-01T12:00:00Z rendered namespaced
done
