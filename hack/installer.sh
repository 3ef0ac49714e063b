#!/usr/bin/env bash
# installer.sh FLAVOUR IMG [FILE]: one file with all that an installation needs beside Crossplane itself.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
flavour=$1 img=$2
case $flavour in
namespaced) out=dist/install.yaml ;;
claim) out=dist/install-claim.yaml ;;
*) echo "FLAVOUR is namespaced or claim, not $flavour" >&2; exit 2 ;;
esac
out=${3:-$out}
mkdir -p "$(dirname "$out")"
{
	cat package/clusterrole.yaml
	printf -- '---\n'
	sed "s|^  package: .*|  package: $img|" package/function.yaml
	printf -- '---\n'
	cat "apis/$flavour/definition.yaml"
	printf -- '---\n'
	cat "compositions/$flavour.yaml"
} >"$out"
echo "$out"
