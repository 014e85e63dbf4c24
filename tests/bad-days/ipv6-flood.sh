#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Connections from very many IPv6 addresses: groups are bounded, and nothing is uncounted.
. "$(dirname "$0")/lib.sh"
before
# Each address of the network is the host's own.
on ip -6 route add local 2001:db8::/64 dev lo
on sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.ip_nonlocal_bind=1
stat --by peer,port
agent <<X
by = ["peer"]
max_groups = 100
max_series = 2000
X
on python3 "$HERE/flood.py" "$BAD" >"$WORK/flood" 2>"$WORK/flood.err" || fail "the flood failed"
read -r SENT READ <"$WORK/flood"
ended
counted
# A group, the messages that found no room for theirs, or those of groups that gave way has each of
# them. The look-ups of .lost.groups are no messages: a flow keeps what it found.
grouped() { of_stat "[.groups[], .other, .ended] | map(.$1.messages) | add"; }
sent=$(grouped tx); read=$(grouped rx)
[ "$sent" = "$SENT" ] && [ "$read" = "$READ" ] ||
	fail "groups and the rest have $sent sends and $read reads of $SENT and $READ"
[ "$(of_stat .ended_groups)" -gt 0 ] || fail "no group gave way: the flood is too short"
[ "$(of_stat '.other.tx.messages')" -gt 0 ] || fail "every group found room: the flood is too small"
agent_counted
series=$(curl -sf "http://$PORT/metrics" | grep -c '^sockstamp_stage_seconds')
memory=$(awk '/^VmRSS/{print $2}' "/proc/$AGENT/status")
[ "$memory" -lt 200000 ] || fail "the agent has $memory kB"
echo "$DAY: $(of_stat '.groups | length') groups; the agent has $series lines and $memory kB"
agent_ends
after
