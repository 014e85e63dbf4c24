#!/usr/bin/env bash
# Runs a program of tests, if its name is (`only`) or is not (`except`) a line of $PROGRAMS, and
# ends it when it has said nothing for a while: watchdog.sh SECONDS only|except PROGRAM ARGUMENT...
#
# cargo runs test binaries by it (CARGO_TARGET_<TRIPLE>_RUNNER): a test that hangs fails its binary
# within minutes, the line before ours has its name, and the other binaries still run.
set -euo pipefail

patience=$1
choice=$2
shift 2
name=${1##*/}
# cargo adds a hash to the name.
if grep -qxF "${name%-*}" <<<"$PROGRAMS"; then
	chosen=only
else
	chosen=except
fi
[ "$chosen" = "$choice" ] || exit 0
began=$SECONDS
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
: >"$folder/said"

alive() { # PID
	kill -0 "$1" 2>/dev/null
}

mkfifo "$folder/pipe"
tee "$folder/said" <"$folder/pipe" &
copy=$!
exec 3>"$folder/pipe"
# A process group of its own: what the tests started ends with them.
set -m
"$@" >&3 2>&1 3>&- &
command=$!
set +m
exec 3>&-
trap 'kill -TERM -- "-$command"; exit 143' INT TERM

watch() {
	while sleep 1; do
		if (($(date +%s) - $(stat -c %Y "$folder/said") > patience)); then
			: >"$folder/hangs"
			printf '\nwatchdog.sh: %s has said nothing for %d s: %s\n' "$name" "$patience" \
				"the test of the last line hangs"
			kill -TERM -- "-$command"
			sleep 5
			kill -KILL -- "-$command" 2>/dev/null || true
			return
		fi
	done
}
watch &
watcher=$!

status=0
wait "$command" || status=$?
if [ -e "$folder/hangs" ]; then
	status=124
	wait "$watcher" || true
else
	kill "$watcher"
fi
# A program that a test leaves behind may hold its output open.
for ((turn = 0; turn < 20; turn++)); do
	alive "$copy" || break
	sleep 0.05
done
if ((SECONDS - began >= 10)); then
	printf 'watchdog.sh: %s took %d s\n' "$name" $((SECONDS - began))
fi
exit "$status"
