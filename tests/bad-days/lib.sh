# SPDX-License-Identifier: GPL-2.0-only
# Sourced by each bad day: a host, programs that count what they do, and a look at what stays
# behind.
# $SOCKSTAMP is the binary; $SECONDS_OF_ONE is how long the bad time lasts.
set -u
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
DAY=$(basename "$0" .sh)
BAD=${SECONDS_OF_ONE:-20}
HOST=bad-$$
WORK=$(mktemp -d /tmp/bad-day.XXXXXX)
STARTED=()
end() {
	local pid
	for pid in "${STARTED[@]}"; do kill -CONT "$pid"; kill "$pid"; done 2>/dev/null
	sleep 0.2
	for pid in "${STARTED[@]}"; do kill -9 "$pid"; done 2>/dev/null
	wait 2>/dev/null
	type -t clean_up >/dev/null && clean_up
	ip netns del "$HOST" 2>/dev/null
	mountpoint -q "$WORK/disk" && umount "$WORK/disk"
	rm -rf "$WORK"
}
trap end EXIT
trap 'exit 130' INT TERM
fail() {
	echo "$DAY: $*" >&2
	tail -n 20 "$WORK"/*.err >&2 2>/dev/null
	exit 1
}
# until_so SECONDS COMMAND: run it again and again until it succeeds
until_so() {
	local left=$(($1 * 20)); shift
	until "$@" >/dev/null 2>&1; do
		[ $((left--)) -gt 0 ] || fail "waited in vain: $*"
		sleep 0.05
	done
}
# The cgroup hierarchies of both versions.
UNIFIED=$(findmnt -n -o TARGET -t cgroup2 | head -n 1)

# what stays behind: programs, maps and links of ours, cgroups, namespaces, mounts, and processes
ids() { bpftool -j "$1" show 2>/dev/null | python3 -c '
import json, sys
for each in json.load(sys.stdin):
    owners = [process["comm"] for process in each.get("pids", [])]
    if "sockstamp" in owners or sys.argv[1] == "prog" and each.get("name", "").startswith(
            ("on_", "adopt_flows", "deselect_flow", "switch_flows", "mark_")):
        print(sys.argv[1], each["id"])
' "$1"; }
present() {
	ids prog; ids map; ids link
	find "$UNIFIED" -type d -name 'sockstamp*'
	pgrep -x sockstamp | sed 's/^/process /'
	grep -c sockstamp /proc/self/mounts
	ls /run/netns
}
before() { ip netns add "$HOST" && ip -n "$HOST" link set lo up; present | sort >"$WORK/before"; }
is_gone() { present | sort | comm -13 "$WORK/before" - | grep -v '^[0-9]*$' | { ! grep -q .; }; }
# after: nothing is there that was not before. Other steps may run sockstamp beside this one: wait
# for a moment without them.
after() {
	local left=$((${1:-120} * 4))
	until is_gone; do
		[ $((left--)) -gt 0 ] || fail "left behind: $(present | sort | comm -13 "$WORK/before" - | tr '\n' ' ')"
		sleep 0.25
	done
}

# on COMMAND: run it on the host
on() { ip netns exec "$HOST" "$@"; }
# sockstamp NAME WORDS: start it; $WORK/NAME has its output, and $LAST its process
sockstamp() {
	local name=$1; shift
	"$SOCKSTAMP" "$@" >"$WORK/$name" 2>"$WORK/$name.err" & LAST=$!; STARTED+=("$LAST")
}
# Once it measures, its capabilities are out of effect (CAP_NET_ADMIN is bit 12).
is_lowered() { (( (0x$(awk '/^CapEff/{print $2}' /proc/"$1"/status) & 1 << 12) == 0 )); }
measures() { until_so 60 is_lowered "$1"; }
# stat WORDS: measure the host until ended; $STAT is the process
stat() { sockstamp stat stat --format json --netns "$HOST" "$@"; STAT=$LAST; measures "$STAT"; }
ended() {
	kill -INT "$STAT" 2>/dev/null
	wait "$STAT" || fail "stat failed"
	jq -e . "$WORK/stat" >/dev/null || fail "stat printed no report"
}
# talk WORDS OF talk.py: start programs on the host; $TALK is the process, $WORK/talk their counts.
# Until they talk, the signal that ends them is ignored, as of all that a script starts beside
# itself.
talk() {
	rm -f "$WORK/talk.err"
	ip netns exec "$HOST" python3 "$HERE/talk.py" "$@" >"$WORK/talk" 2>"$WORK/talk.err" &
	TALK=$!; STARTED+=("$TALK")
	until_so 60 grep -q talking "$WORK/talk.err"
}
# hushed: end them; $SENT and $READ are what they counted
hushed() {
	kill -INT "$TALK" 2>/dev/null
	wait "$TALK" || fail "the programs failed"
	read -r SENT READ <"$WORK/talk"
}
of_stat() { jq -r "$1" "$WORK/stat"; }
# counted: each message that the programs sent and read is counted, whatever else happened
counted() {
	local sent read
	sent=$(of_stat .tx.messages); read=$(of_stat .rx.messages)
	[ "$sent" = "$SENT" ] && [ "$read" = "$READ" ] ||
		fail "counted $sent sends and $read reads of $SENT and $READ"
	# What was measured is valid, or refused for a reason, or still under way.
	of_stat '(.measured // empty), ([.verdicts[]] | add), .in_flight' | tr '\n' ' ' >"$WORK/measured"
	echo "$DAY: $SENT sends and $READ reads, all counted; verdicts $(of_stat '.verdicts | tojson'); lost $(of_stat '.lost | with_entries(select(.value > 0)) | tojson')"
}
# agent: measure every message of the host, with the settings on standard input; $AGENT is the
# process, $PORT where it serves
agent() {
	{ echo 'sample = "1000000/s"'; echo 'max_cost = "none"'; cat; echo "[target]"; echo "netns = \"$HOST\""; } >"$WORK/agent.toml"
	"${IN[@]}" "$SOCKSTAMP" agent --listen 127.0.0.1:0 --config "$WORK/agent.toml" \
		>"$WORK/agent" 2>"$WORK/agent.err" & AGENT=$!; STARTED+=("$AGENT")
	until_so 60 grep -q 'listening on' "$WORK/agent.err"
	PORT=$(grep -o '127.0.0.1:[0-9]*' "$WORK/agent.err" | head -n 1)
}
# A command that becomes what it is given, as for a namespace of mounts.
IN=(env)
# metric NAME LABELS: the sum of its series
metric() {
	# Scrapes within 200 ms share a reading.
	sleep 0.25
	curl -sf "http://$PORT/metrics" | awk -v name="$1" -v label="${2:-}" '
		index($0, name) == 1 && substr($0, length(name) + 1, 1) ~ /[{ ]/ &&
			index($0, label) { sum += $NF }
		END { printf "%d\n", sum }'
}
# agent_counted: the agent counted each message of the programs
agent_counted() {
	local sent read
	sent=$(metric sockstamp_messages_total 'direction="tx"')
	read=$(metric sockstamp_messages_total 'direction="rx"')
	[ "$sent" = "$SENT" ] && [ "$read" = "$READ" ] ||
		fail "the agent counted $sent sends and $read reads of $SENT and $READ"
	echo "$DAY: $SENT sends and $READ reads, all counted by the agent"
}
agent_ends() {
	kill -TERM "$AGENT"
	wait "$AGENT" || fail "the agent failed"
}
# rows FILE...: the messages in these recordings
rows() {
	local file all=0
	for file; do
		all=$((all + $("$SOCKSTAMP" report --format json "$file" | jq '.tx.messages + .rx.messages')))
	done
	echo "$all"
}
