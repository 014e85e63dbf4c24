#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Very many network namespaces, with a connection in one: $NAMESPACES of them, 2000 unless it says
# otherwise.
. "$(dirname "$0")/lib.sh"
MANY=${NAMESPACES:-2000}
clean_up() { ip netns list | grep -o "^$HOST-[0-9]*" | sed 's/^/netns del /' | ip -batch - 2>/dev/null; }
before
seq "$MANY" | sed "s/^/netns add $HOST-/" | ip -batch - || fail "no $MANY network namespaces"
sockstamp stat stat --format json; STAT=$LAST
begun=$SECONDS
until_so 240 is_lowered "$STAT"
echo "$DAY: a start among $MANY network namespaces takes $((SECONDS - begun)) s"
IN=(env)
agent <<X
by = ["netns"]
[probe]
interval = "1s"
X
talk
sleep "$BAD"
descriptors=$(ls "/proc/$AGENT/fd" | wc -l)
threads=$(ls "/proc/$AGENT/task" | wc -l)
memory=$(awk '/^VmRSS/{print $2}' "/proc/$AGENT/status")
[ "$descriptors" -lt 300 ] && [ "$threads" -lt 30 ] && [ "$memory" -lt 200000 ] ||
	fail "the agent has $descriptors descriptors, $threads threads and $memory kB"
hushed
agent_counted
agent_ends
kill -INT "$STAT"; wait "$STAT" || fail "stat failed"
echo "$DAY: the agent had $descriptors descriptors, $threads threads and $memory kB"
clean_up
after 120
