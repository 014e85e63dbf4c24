#!/usr/bin/env bash
# Runs what README says in a bare tree of a release of Debian, with make and the packages that the
# commands install: make run, make install, doctor and stat. Of make test it asks apt whether it has
# the packages.
#
#   bare.sh SUITE...    bookworm, trixie
#
# Needs root, mmdebstrap, and the sources of all crates: a build on this host has fetched them. Rust
# is this host's.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo_home=${CARGO_HOME:-$HOME/.cargo}
rustup_home=${RUSTUP_HOME:-$HOME/.rustup}
work=$(mktemp -d /var/tmp/sockstamp-bare.XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT

# Sources are there already. Without the optimization that takes most of a build, the commands are
# the same.
quick=(CARGO_NET_OFFLINE=true CARGO_TARGET_DIR=/target CARGO_PROFILE_RELEASE_OPT_LEVEL=0
	CARGO_PROFILE_RELEASE_DEBUG=false)

# The mirror of this host, as its apt knows it.
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' |
	head -n 1)

# In namespaces of its own: its mounts and processes end with it.
inside() { # TREE COMMAND...
	local tree=$1
	shift
	# shellcheck disable=SC2016 # The inner shell expands it.
	unshare --mount --pid --fork --kill-child bash -euc '
		tree=$1 cargo_home=$2 rustup_home=$3
		shift 3
		# `ip netns exec` changes the mount at /: the root must be one.
		mount --bind "$tree" "$tree"
		mkdir -p "$tree$cargo_home" "$tree$rustup_home"
		mount --bind "$cargo_home" "$tree$cargo_home"
		mount --bind "$rustup_home" "$tree$rustup_home"
		mount -t proc proc "$tree/proc"
		mount --rbind /sys "$tree/sys"
		mount --bind /dev/null "$tree/dev/null"
		mkdir -p "$tree/dev/net"
		touch "$tree/dev/net/tun"
		mount --bind /dev/net/tun "$tree/dev/net/tun"
		exec chroot "$tree" env --chdir=/src "$@"
	' inside "$tree" "$cargo_home" "$rustup_home" \
		"CARGO_HOME=$cargo_home" "RUSTUP_HOME=$rustup_home" "${quick[@]}" \
		"PATH=$cargo_home/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" "$@"
}

for suite; do
	tree=$work/$suite
	echo "bare.sh: $suite"
	mmdebstrap --quiet --variant=minbase --include=make,ca-certificates \
		"$suite" "$tree" "$mirror"
	mkdir "$tree/src"
	tar --exclude=./target --exclude=./.git --create . | tar --extract --directory "$tree/src"
	inside "$tree" make run | tee "$work/run"
	# The delay of the demo's link, one way and back.
	if ! grep -Eq '^ *tx\.network .* 2[0-9](\.[0-9]+)? ms' "$work/run"; then
		echo "bare.sh: $suite: the demo does not show its link" >&2
		exit 1
	fi
	inside "$tree" make install
	inside "$tree" sockstamp stat --duration 100ms
	inside "$tree" sockstamp doctor | tee "$work/doctor"
	if ! grep -Eq '^  self-test +[1-9][0-9]* of ' "$work/doctor"; then
		echo "bare.sh: $suite: sockstamp measures no message" >&2
		exit 1
	fi
	inside "$tree" scripts/deps.sh test --simulate
	rm -rf --one-file-system "$tree"
done
