#!/usr/bin/env bash
# Remembers for which files a step of test.sh has passed that gives the same for the same files, and takes minutes.
#
#   tried.sh is STEP      succeed if it is such a step, and has passed with the files that are here now
#   tried.sh keep STEP    it has: scripts/tried/STEP
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# = 2 ] || {
	echo "usage: tried.sh is|keep STEP" >&2
	exit 2
}

case $2 in
fuzz) inputs=(fuzz crates/sockstamp crates/sockstamp-model crates/sockstamp-ping crates/sockstamp-record scripts/fuzz.sh) ;;
miri) inputs=(crates/sockstamp Cargo.lock) ;;
# Programs in tests/ are not counted.
count) inputs=(crates Cargo.lock Cargo.toml kernel/series/instructions-of-sockstamp-7.2.txt ! -path 'crates/*/tests/*') ;;
# Texts for people, and counts that the step itself compares, change nothing.
series) inputs=(kernel/series crates/sockstamp-bpf ! -name README.md ! -name 'instructions*.txt' ! -name 0000-cover-letter.patch) ;;
bare) inputs=(scripts/deps.sh scripts/bare.sh) ;;
*) exit 1 ;;
esac

sum() {
	find "${inputs[@]}" -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d ' ' -f 1
}

case $1 in
is) [ -e "scripts/tried/$2" ] && [ "$(sum)" = "$(cat "scripts/tried/$2")" ] ;;
keep) sum >"scripts/tried/$2" ;;
*) exit 2 ;;
esac
