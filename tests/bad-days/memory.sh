#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The memory of the agent's cgroup runs short, first because of another program there; then the
# kernel kills the agent, and one that cannot start.
. "$(dirname "$0")/lib.sh"
# The controller is in the one hierarchy or the other.
if [ -d /sys/fs/cgroup/memory ]; then
	CAGE=/sys/fs/cgroup/memory/bad-day-$$ LIMIT=memory.limit_in_bytes
else
	CAGE=$UNIFIED/bad-day-$$ LIMIT=memory.max
	echo +memory >"$UNIFIED/cgroup.subtree_control" 2>/dev/null
fi
clean_up() { rmdir "$CAGE" 2>/dev/null; }
mkdir "$CAGE" || fail "no cgroup is made"
limit() { echo $(($1 << 20)) >"$CAGE/$LIMIT" || fail "the memory is not limited"; }
before
IN=(sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$CAGE")
limit 400
agent <<<"max_memory = 16"
talk
sleep 1
# Page cache and anonymous memory of a neighbour, up to the limit, with a swap of none: the kernel
# reclaims all that it can, again and again.
head -c 300m /dev/zero >"$WORK/cache"
"${IN[@]}" python3 -c '
import sys, time
kept, end = [], time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    if len(kept) < 15: kept.append(bytearray(b"x" * (10 << 20)))
    open(sys.argv[2], "rb").read()
' "$BAD" "$WORK/cache" >/dev/null 2>&1 &
NEIGHBOUR=$!; STARTED+=("$NEIGHBOUR")
wait "$NEIGHBOUR"
hushed
kill -0 "$AGENT" 2>/dev/null || fail "the agent was killed in the place of its neighbour"
agent_counted
# The agent is the first that the kernel kills when a neighbour takes all.
echo 1000 >"/proc/$AGENT/oom_score_adj"
"${IN[@]}" python3 -c 'kept = bytearray(b"x" * (1 << 30))' >/dev/null 2>&1
until_so 30 sh -c "! kill -0 $AGENT"
wait "$AGENT"; [ $? = 137 ] || fail "the agent was not killed"
after
# One that has too little to start ends with a reason, or is killed; nothing stays behind either
# way.
limit 12
"${IN[@]}" "$SOCKSTAMP" stat --duration 1s --netns "$HOST" >"$WORK/stat" 2>"$WORK/stat.err" && fail "12 MB are enough"
echo "$DAY: with 12 MB: status $?, $(head -c 300 "$WORK/stat.err")"
after
