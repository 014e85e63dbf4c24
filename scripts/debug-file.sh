#!/usr/bin/env bash
# Takes the debug information out of a program: debug-file.sh PROGRAM. It is in PROGRAM.debug then,
# where debuggers and perf find it by the link in the program (.gnu_debuglink). The table of symbols
# stays: with it alone, perf report names functions.
set -euo pipefail

program=$1
made=$(mktemp "$program.XXXXXX")
trap 'rm -f "$made"' EXIT

objcopy --only-keep-debug "$program" "$program.debug"
# Not in place: cargo has another link to the file, and makes the program of it again each time.
objcopy --strip-debug --add-gnu-debuglink="$program.debug" "$program" "$made"
chmod --reference="$program" "$made"
mv "$made" "$program"
