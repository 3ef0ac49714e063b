#!/usr/bin/env bash
# build.sh NAME: prints the path of the pinned tool NAME and builds it first where the cache lacks it.
#
# A tool is built from the Go module in the folder beside this script; the cache is keyed by that
# module's go.mod and go.sum, by the Go version and by the flags below, and lies outside the checkout
# ($FDS_CACHE, by default ~/.cache/function-directoryservice), so that every checkout shares it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
	echo "usage: $0 NAME, one of: controller-gen crane crossplane crossplane-core etcd golangci-lint kube-apiserver kube-controller-manager kubectl" >&2
	exit 2
}
[ $# = 1 ] || usage
name=$1
ldflags="-s -w"
case $name in
crossplane)
	module=crossplane package=github.com/crossplane/cli/v2/cmd/crossplane
	ldflags+=" -X github.com/crossplane/crossplane-runtime/v2/pkg/version.version=v2.5.0"
	;;
crossplane-core)
	module=crossplane package=github.com/crossplane/crossplane/v2/cmd/crossplane
	# Without its version the package manager calls every package incompatible.
	ldflags+=" -X github.com/crossplane/crossplane-runtime/v2/pkg/version.version=v2.4.0"
	;;
crane) module=crossplane package=github.com/google/go-containerregistry/cmd/crane ;;
kube-apiserver | kube-controller-manager | kubectl)
	module=kubernetes package=k8s.io/kubernetes/cmd/$name
	for p in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
		ldflags+=" -X $p.gitVersion=v1.36.3 -X $p.gitMajor=1 -X $p.gitMinor=36 -X $p.gitTreeState=clean"
	done
	;;
etcd) module=etcd package=go.etcd.io/etcd/server/v3 ;;
golangci-lint) module=golangci-lint package=github.com/golangci/golangci-lint/v2/cmd/golangci-lint ;;
controller-gen) module=controller-gen package=sigs.k8s.io/controller-tools/cmd/controller-gen ;;
*) usage ;;
esac

flags=(-trimpath -ldflags "$ldflags")
# Changing these changes every key of Go's build cache: one choice for all tools.
export CGO_ENABLED=0 GOFLAGS="-buildvcs=false"
key=$({ cat "$here/$module/go.mod" "$here/$module/go.sum"; go version; echo "${flags[@]}"; } | sha256sum | cut -c1-12)
dir=${FDS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/function-directoryservice}/tools/$name-$key
if [ ! -x "$dir/$name" ]; then
	mkdir -p "$dir"
	exec 9>"$dir/.lock"
	flock 9 # two builds of one tool at once would only halve the machine
	if [ ! -x "$dir/$name" ]; then
		echo "building $name ($package), once; kept in $dir" >&2
		(cd "$here/$module" && go build "${flags[@]}" -o "$dir/.$name" "$package") >&2
		mv "$dir/.$name" "$dir/$name"
	fi
fi
echo "$dir/$name"
