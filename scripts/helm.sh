#!/usr/bin/env bash
# Runs Helm: helm.sh ARGUMENTS. No Debian has a package of it, so Go builds one into the user's
# cache folder.
set -euo pipefail

version=v3.22.0
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sockstamp
installed=$cache/helm-$version

if ! [ -x "$installed/helm" ]; then
	mkdir -p "$cache"
	(
		# Two tests may begin at the same time.
		flock 9
		[ ! -x "$installed/helm" ] || exit 0
		rm -rf "$installed.new"
		GOBIN=$installed.new go install "helm.sh/helm/v3/cmd/helm@$version"
		mv "$installed.new" "$installed"
	) 9>"$cache/helm.lock" >&2
fi

exec "$installed/helm" "$@"
