#!/usr/bin/env bash
# Runs a tool of cargo's: cargo-tool.sh deny|fuzz|cyclonedx ARGUMENTS. Takes the one on PATH when it
# is new enough, else builds one (a minute or two, once) into the user's cache folder: neither the
# tree nor ~/.cargo is touched.
set -euo pipefail

tool=cargo-${1:?usage: cargo-tool.sh deny|fuzz|cyclonedx ARGUMENTS}
shift
case $tool in
cargo-deny)
	# Releases such as 0.14 stop with a panic at the package ids that cargo prints since 1.77,
	# and do not know the licence Unicode-3.0.
	oldest=0.18.0
	version=0.20.2 # Its own MSRV is 1.88, as ours.
	;;
cargo-fuzz)
	oldest=0.13.0
	version=0.13.2
	;;
cargo-cyclonedx)
	# Older ones write another serial number each time.
	oldest=0.5.4
	version=0.5.9
	;;
*)
	echo "cargo-tool.sh: no tool '$tool'" >&2
	exit 2
	;;
esac

cache=${XDG_CACHE_HOME:-$HOME/.cache}/sockstamp
built=$cache/$tool-$version/bin/$tool

new_enough() {
	local found
	found=$("$1" --version 2>/dev/null | awk '{ print $2 }') || return 1
	[ -n "$found" ] &&
		[ "$(printf '%s\n' "$oldest" "$found" | sort -V | head -n 1)" = "$oldest" ]
}

if found=$(command -v "$tool") && new_enough "$found"; then
	exec "$found" "$@"
fi

if ! [ -x "$built" ]; then
	echo "$tool $version is built into $cache (once, a minute or two)" >&2
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/build.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	# Not optimised: it runs for a second, and is built in a third of the time. Built outside
	# the workspace's folder and environment, so that neither its configuration nor its target
	# folder is picked up.
	(
		cd "$work"
		env -u RUSTFLAGS CARGO_TARGET_DIR="$work/target" CARGO_PROFILE_DEV_DEBUG=0 \
			CARGO_INCREMENTAL=0 cargo install --quiet --locked --debug \
			--version "$version" --root "$work/root" "$tool"
	) >&2
	rm -rf "${built%/bin/*}"
	mv "$work/root" "${built%/bin/*}"
	rm -rf "$work"
	trap - EXIT
fi

exec "$built" "$@"
