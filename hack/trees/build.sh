#!/usr/bin/env bash
# build.sh SUITE: prints the path of a root tree with a real 389 Directory Server, laid out as the
# upstream container image is, and builds it first where the cache lacks it (root, Debian or Ubuntu,
# 2-10 minutes, about 450 MB). The tests of test/ldap run the pods' containers in it.
#
#   bookworm  389 DS 2.3.1 (bdb)     trixie  3.1.2 (mdb, reads bdb)     sid  3.3.1 or newer (mdb)
#
# The cache is keyed by this script and lies outside the checkout ($FDS_CACHE, by default
# ~/.cache/function-directoryservice). $DEBIAN_MIRROR replaces debootstrap's default mirror.
set -euo pipefail
self=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
packages="389-ds-base python3-lib389 openssl procps"

usage() {
	echo "usage: $0 SUITE, one of: bookworm trixie sid" >&2
	exit 2
}
fail() {
	echo "build.sh: $*" >&2
	exit 1
}

# apart COMMAND..: the command in mount and pid namespaces of its own. What it mounts and starts, a chroot's
# /proc above all, is gone with it, also when it is killed.
apart() {
	unshare --mount --pid --fork --kill-child --propagation private "$@"
}

# in_tree DIR COMMAND..: the command chrooted, with a /proc.
in_tree() {
	local dir=$1
	shift
	apart sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$dir" "$@"
}

# version DIR: the first line of ns-slapd -v, whose exit status is 1 by design.
version() {
	in_tree "$1" sh -c 'ns-slapd -v 2>&1 || true' | grep -m1 -o '389-Directory/[0-9][0-9.]*' || true
}

bootstrap() { # DIR
	local dir=$1
	(
		flock 8 # apt-get does not wait for another
		if ! command -v debootstrap >/dev/null; then
			apt-get update
			DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends debootstrap
		fi
	) 8>"$trees/.lock-apt"
	# An older debootstrap may lack a script for the suite; Debian's suites all share sid's.
	local script=/usr/share/debootstrap/scripts/$suite
	[ -e "$script" ] || ln -s sid "$script"
	apart debootstrap --variant=minbase --include=ca-certificates "$suite" "$dir" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"}

	# No service starts in a chroot.
	printf '#!/bin/sh\nexit 101\n' >"$dir/usr/sbin/policy-rc.d"
	chmod 755 "$dir/usr/sbin/policy-rc.d"
	# shellcheck disable=SC2086 # a list of packages
	in_tree "$dir" env DEBIAN_FRONTEND=noninteractive LC_ALL=C \
		apt-get install -y --no-install-recommends $packages
	rm -rf "$dir"/var/cache/apt/* "$dir"/var/lib/apt/lists/* "$dir"/usr/sbin/policy-rc.d
}

like_the_image() { # DIR
	local dir=$1
	in_tree "$dir" sh -euc '
		groupmod -g 389 dirsrv
		usermod -u 389 -g 389 -d /data dirsrv
		for d in /etc/dirsrv /var/lib/dirsrv /var/log/dirsrv /var/lock/dirsrv; do
			[ ! -e "$d" ] || chown -R dirsrv:dirsrv "$d"
		done
		rm -rf /etc/dirsrv/slapd-localhost /etc/dirsrv/ssca /run/dirsrv
		ln -s /data/config /etc/dirsrv/slapd-localhost
		ln -s /data/ssca /etc/dirsrv/ssca
		ln -s /data/run /run/dirsrv
		# Mount points: a container has its root read-only, and cannot make them.
		mkdir -p /data /opt/directoryservice /var/run/secrets/kubernetes.io/serviceaccount
		for m in config dm-password tls replication; do mkdir -p "/etc/directoryservice/$m"; done
		chown dirsrv:dirsrv /data
		# The same, of files.
		for f in hosts hostname resolv.conf; do rm -f "/etc/$f" && : >"/etc/$f"; done
	'
}

[ $# = 1 ] || usage
suite=$1
case $suite in
bookworm) expected=2.3.1 ;;
trixie) expected=3.1.2 ;;
sid) expected=3.3. ;;
*) usage ;;
esac

key=$(sha256sum <"$self" | cut -c1-12)
trees=${FDS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/function-directoryservice}/trees
tree=$trees/$suite-$key
if [ ! -d "$tree" ]; then
	[ "$(id -u)" = 0 ] || fail "needs root: debootstrap makes device files and a chroot"
	mkdir -p "$trees"
	exec 9>"$trees/.lock-$suite"
	flock 9
	if [ ! -d "$tree" ]; then
		echo "building the tree $suite, once; kept in $tree" >&2
		new=$trees/.new-$suite
		rm -rf "$new" # what an interrupted build left
		{
			bootstrap "$new"
			like_the_image "$new"
		} >&2 9>&-
		got=$(version "$new")
		case $got in
		389-Directory/$expected*) ;;
		389-Directory/*)
			# sid moves on; the other two are frozen, and a wrong version there is a wrong tree.
			[ "$suite" = sid ] || fail "ns-slapd of $suite is '$got', expected $expected"
			echo "build.sh: $suite has moved on to $got (expected $expected)" >&2
			;;
		*) fail "ns-slapd of $suite does not say that it is a 389 Directory Server: '$got'" ;;
		esac
		echo "$suite: $got" >&2
		mv "$new" "$tree"
	fi
fi
echo "$tree"
