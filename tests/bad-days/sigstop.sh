#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# stat, trace and record are stopped for a while: the kernel counts on.
. "$(dirname "$0")/lib.sh"
before
stat
sockstamp trace trace --every --max-cost none --format json --netns "$HOST"; TRACE=$LAST
sockstamp record record --every --max-cost none -o "$WORK/row.parquet" --netns "$HOST"; RECORD=$LAST
measures "$TRACE"; measures "$RECORD"
talk 0.002
sleep 1
kill -STOP "$STAT" "$TRACE" "$RECORD"
sleep "$BAD"
kill -CONT "$STAT" "$TRACE" "$RECORD"
sleep 1
hushed
kill -INT "$TRACE" "$RECORD"; wait "$TRACE" "$RECORD"
ended
counted
# A line of trace for each message; a last line counts those that found no room.
lines=$(grep -c '"direction":"[rt]x"' "$WORK/trace")
lost=$(jq -s 'map(.lost.ring // empty) | add // 0' "$WORK/trace")
[ $((lines + lost)) = $((SENT + READ)) ] ||
	fail "trace: $lines messages and $lost lost of $((SENT + READ))"
rows=$("$SOCKSTAMP" report --format json "$WORK/row.parquet" | jq '.tx.messages + .rx.messages')
lost=$(grep -o 'lost: ring [0-9]*' "$WORK/record.err" | grep -o '[0-9]*$' || echo 0)
[ $((rows + lost)) = $((SENT + READ)) ] ||
	fail "record: $rows rows and $lost lost of $((SENT + READ))"
after
