#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The disk of [hindsight], and that of record, fills up and has room again. Each message is in a
# file or counted.
. "$(dirname "$0")/lib.sh"
before
mkdir -m 700 "$WORK/disk"
mount -t tmpfs -o size=8m,mode=700 none "$WORK/disk" || fail "no disk"
agent <<X
[hindsight]
directory = "$WORK/disk"
keep = "1440m"
min_free = 1
X
talk 0.0005 --connections 4
until_so 30 compgen -G "$WORK/disk/recent/*"
head -c 7900k /dev/zero >"$WORK/disk/filler"
sleep "$BAD"
lost=$(metric sockstamp_hindsight_lost_messages_total)
[ "$lost" -gt 0 ] || fail "a full disk costs no message: $(df "$WORK/disk" | tail -n 1)"
grep -q hindsight "$WORK/agent.err" || fail "the log says nothing"
rm "$WORK/disk/filler"
sleep 3
hushed
agent_counted
sleep 3
lost=$(metric sockstamp_hindsight_lost_messages_total)
ring=$(metric sockstamp_losses_total 'reason="ring"')
early=$(metric sockstamp_hindsight_early_files_total)
agent_ends
kept=$(rows "$WORK"/disk/recent/*.parquet)
# Files that were removed early to make room had messages, which are gone as announced.
[ "$early" -gt 0 ] || [ $((kept + lost + ring)) = $((SENT + READ)) ] ||
	fail "$kept recorded, $lost and $ring lost of $((SENT + READ))"
echo "$DAY: $kept messages recorded, $lost lost for the disk, $ring in the ring, $early files removed early"
# record says that its disk is full, and what it wrote can be read.
head -c 7900k /dev/zero >"$WORK/disk/filler"
rm -rf "$WORK/disk/recent"
stat
sockstamp record record --every --max-cost none -o "$WORK/disk/row.parquet" --netns "$HOST"; RECORD=$LAST
measures "$RECORD"
talk 0.0005 --connections 4
sleep "$BAD"
hushed
kill -INT "$RECORD" 2>/dev/null; wait "$RECORD" && fail "record has not noticed: $(df "$WORK/disk" | tail -n 1)"
grep -q 'recording stops' "$WORK/record.err" || fail "record does not say why"
ended
counted
after
