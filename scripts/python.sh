#!/usr/bin/env bash
# Runs Python with the packages that tests need: python.sh ARGUMENTS. They are installed into the
# user's cache folder when requirements.txt, or the file that $REQUIREMENTS names, changes: neither
# the tree nor the system's Python is touched.
set -euo pipefail

requirements=$(dirname "$0")/${REQUIREMENTS:-requirements.txt}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sockstamp
version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
installed=$cache/python-$version-$(sha256sum "$requirements" | cut -c 1-16)

if ! [ -x "$installed/bin/python" ]; then
	mkdir -p "$cache"
	(
		# Two tests may begin at the same time.
		flock 9
		[ ! -x "$installed/bin/python" ] || exit 0
		rm -rf "$installed.new"
		python3 -m venv "$installed.new"
		"$installed.new/bin/python" -m pip install --quiet --disable-pip-version-check \
			--only-binary :all: --requirement "$requirements"
		mv "$installed.new" "$installed"
	) 9>"$cache/python.lock" >&2
fi

exec "$installed/bin/python" "$@"
