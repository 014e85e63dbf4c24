#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Very many network namespaces, with a connection in one: $NAMESPACES of them, 2000 unless it says
# otherwise.
. "$(dirname "$0")/lib.sh"
MANY=${NAMESPACES:-2000}
clean_up() { ip netns list | grep -o "^$HOST-[0-9]*" | sed 's/^/netns del /' | ip -batch - 2>/dev/null; }
# As most shells have it; the agent raises it.
ulimit -Sn 1024
before
seq "$MANY" | sed "s/^/netns add $HOST-/" | ip -batch - || fail "no $MANY network namespaces"
sockstamp stat stat --format json; STAT=$LAST
begun=$SECONDS
until_so 240 is_lowered "$STAT"
echo "$DAY: a start among $MANY network namespaces takes $((SECONDS - begun)) s"
# is_small NAME PROCESS DESCRIPTORS: it keeps fewer than these, few threads, and little memory,
# however many namespaces there are
is_small() {
	local descriptors threads memory
	descriptors=$(ls "/proc/$2/fd" | wc -l)
	threads=$(ls "/proc/$2/task" | wc -l)
	memory=$(awk '/^VmHWM/{print $2}' "/proc/$2/status")
	[ "$descriptors" -lt "$3" ] && [ "$threads" -lt 30 ] && [ "$memory" -lt 200000 ] ||
		fail "$1 has $descriptors descriptors, $threads threads and $memory kB"
	echo "$DAY: $1 has $descriptors descriptors, $threads threads and $memory kB"
}
is_small stat "$STAT" 700
begun=$SECONDS
(ulimit -v 1000000; "$SOCKSTAMP" stuck --format json) >"$WORK/stuck" 2>"$WORK/stuck.err" ||
	fail "stuck failed"
jq -e .waits "$WORK/stuck" >/dev/null || fail "stuck printed no list"
echo "$DAY: stuck takes $((SECONDS - begun)) s"
IN=(env)
agent <<X
by = ["netns"]
[probe]
interval = "1s"
X
talk
sleep "$BAD"
is_small "the agent" "$AGENT" 300
hushed
agent_counted
agent_ends
kill -INT "$STAT"; wait "$STAT" || fail "stat failed"
clean_up
after 120
