#!/usr/bin/env bash
# Formats the C in place; with --check only says what is not formatted. Generated headers are left
# alone.
set -euo pipefail
cd "$(dirname "$0")/.."

for clang_format in clang-format-{19,18,17,16,20,21,22} clang-format; do
	command -v "$clang_format" >/dev/null && break
done

case ${1:-} in
--check) action=(--dry-run --Werror) ;;
'') action=(-i) ;;
*)
	echo "usage: clang-format.sh [--check]" >&2
	exit 2
	;;
esac

find crates/sockstamp-bpf/src crates/sockstamp-capi crates/testbed-bpf/src \
	-name '*.[ch]' ! -name 'vmlinux*.h' ! -path '*/generated/*' -print0 |
	xargs -0 --no-run-if-empty "$clang_format" --style=file "${action[@]}"
