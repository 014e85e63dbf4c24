#!/usr/bin/env bash
# Runs an OpenTelemetry Collector: collector.sh ARGUMENTS. It is built from the released Go modules
# that collector/go.mod names, into the user's cache folder, when that folder changes: two minutes
# of a core, once.
set -euo pipefail

source=$(dirname "$0")/collector
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sockstamp
built=$cache/collector-$(cat "$source"/{go.mod,go.sum,main.go} | sha256sum | cut -c 1-16)

if ! [ -x "$built" ]; then
	mkdir -p "$cache"
	(
		# Two tests may begin at the same time.
		flock 9
		[ ! -x "$built" ] || exit 0
		go build -C "$source" -trimpath -ldflags='-s -w' -o "$built.new"
		mv "$built.new" "$built"
	) 9>"$cache/collector.lock" >&2
fi

exec "$built" "$@"
