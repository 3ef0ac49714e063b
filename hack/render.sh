#!/usr/bin/env bash
# render.sh: renders one DirectoryService offline, with the real Crossplane CLI and core, on stdout.
#
# Environment: XR=file (a DirectoryService; for FLAVOUR=claim the claim as a user writes it)
#   OBSERVED=file  REQUIRED=file  FLAVOUR=namespaced|claim  COMPOSITION=file  FUNCTION=path of the binary
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
: "${XR:?XR=file is missing: name a file with a DirectoryService, for example XR=examples/minimal.yaml}"
flavour=${FLAVOUR:-namespaced}
case $flavour in namespaced | claim) ;; *) echo "FLAVOUR must be namespaced or claim, not $flavour" >&2; exit 2 ;; esac
composition=${COMPOSITION:-compositions/$flavour.yaml}
for f in "$XR" "$composition" ${OBSERVED:+"$OBSERVED"} ${REQUIRED:+"$REQUIRED"}; do
	[ -r "$f" ] || { echo "cannot read $f" >&2; exit 2; }
done
function=${FUNCTION:-bin/directoryservice}
[ -x "$function" ] || { echo "$function is missing: run \`make build\`" >&2; exit 2; }
crossplane=$(hack/tools/build.sh crossplane)
core=$(hack/tools/build.sh crossplane-core)

work=$(mktemp -d)
trap 'kill "$pid" 2>/dev/null || true; rm -rf "$work"' EXIT

# The function's server tells nobody its port, so a free one is tried until it serves.
for _ in 1 2 3 4 5; do
	port=$((20000 + RANDOM % 20000))
	"$function" serve --insecure --address "127.0.0.1:$port" >"$work/log" 2>&1 &
	pid=$!
	for _ in $(seq 100); do
		(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break 2
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.05
	done
done
kill -0 "$pid" 2>/dev/null || { cat "$work/log" >&2; exit 1; }

cat >"$work/functions.yaml" <<Y
apiVersion: pkg.crossplane.io/v1
kind: Function
metadata:
  name: function-directoryservice
  annotations:
    render.crossplane.io/runtime: Development
    render.crossplane.io/runtime-development-target: 127.0.0.1:$port
spec:
  package: function-directoryservice
Y
"$crossplane" composition render "$XR" "$composition" "$work/functions.yaml" \
	--crossplane-binary="$core" --xrd="apis/$flavour/definition.yaml" --timeout=2m \
	${OBSERVED:+--observed-resources="$OBSERVED"} ${REQUIRED:+--required-resources="$REQUIRED"} \
	--include-function-results --include-full-xr
