#!/usr/bin/env bash
# Runs a program in Go: go-tool.sh helm|kubeconform ARGUMENTS. No Debian has a package of these, so
# Go builds them into the user's cache folder.
set -euo pipefail

tool=$1
shift
case $tool in
helm) package=helm.sh/helm/v3/cmd/helm version=v3.22.0 ;;
kubeconform) package=github.com/yannh/kubeconform/cmd/kubeconform version=v0.8.0 ;;
*) echo "go-tool.sh: no program $tool" >&2 && exit 2 ;;
esac
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sockstamp
installed=$cache/$tool-$version

if ! [ -x "$installed/$tool" ]; then
	mkdir -p "$cache"
	(
		# Two tests may begin at the same time.
		flock 9
		[ ! -x "$installed/$tool" ] || exit 0
		rm -rf "$installed.new"
		GOBIN=$installed.new go install "$package@$version"
		mv "$installed.new" "$installed"
	) 9>"$cache/$tool.lock" >&2
fi

exec "$installed/$tool" "$@"
