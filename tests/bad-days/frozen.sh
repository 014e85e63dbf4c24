#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The cgroup of stat is frozen for a while, and then that of the programs that it measures.
. "$(dirname "$0")/lib.sh"
clean_up() { rmdir "$UNIFIED"/bad-day-"$$"-* 2>/dev/null; }
cage() {
	local cage=$UNIFIED/bad-day-$$-$1; shift
	mkdir "$cage" || fail "no cgroup is made"
	local pid
	for pid; do echo "$pid" >"$cage/cgroup.procs"; done
}
freeze() {
	echo 1 >"$UNIFIED/bad-day-$$-$1/cgroup.freeze"
	until_so 10 grep -q 'frozen 1' "$UNIFIED/bad-day-$$-$1/cgroup.events"
	sleep "$BAD"
	echo 0 >"$UNIFIED/bad-day-$$-$1/cgroup.freeze"
}
before
stat
talk 0.002
cage stat "$STAT"; cage talk "$TALK"
freeze stat
sleep 1
freeze talk
sleep 1
hushed
ended
counted
after
