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
# left_out NAME WORDS: the messages that its standard error counts in these words
left_out() {
	grep -o "^sockstamp: [0-9]* messages $2" "$WORK/$1.err" | awk '{sum += $2} END {printf "%d", sum}'
}
# A line of trace for each message, or a count: of those that found no room in the ring, in its last
# line, and of those that came faster than they could be printed.
lines=$(grep -c '"direction":"[rt]x"' "$WORK/trace")
lost=$(jq -s 'map(.lost.ring // empty) | add // 0' "$WORK/trace")
late=$(left_out trace 'could not be shown')
[ $((lines + lost + late)) = $((SENT + READ)) ] ||
	fail "trace: $lines messages, $lost lost and $late left out of $((SENT + READ))"
rows=$("$SOCKSTAMP" report --format json "$WORK/row.parquet" | jq '.tx.messages + .rx.messages')
lost=$(grep -o 'lost: ring [0-9]*' "$WORK/record.err" | grep -o '[0-9]*$' || echo 0)
late=$(left_out record 'are not in the recording')
[ $((rows + lost + late)) = $((SENT + READ)) ] ||
	fail "record: $rows rows, $lost lost and $late left out of $((SENT + READ))"
after
