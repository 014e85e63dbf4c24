#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A /var that nobody can write, from the start or from now on.
. "$(dirname "$0")/lib.sh"
before
mkdir -m 700 "$WORK/disk"
mount -t tmpfs -o size=64m,mode=700 none "$WORK/disk" || fail "no disk"
mkdir "$WORK/disk/var"
SETTINGS="[hindsight]
directory = \"$WORK/disk/var\"
min_free = 1"
mount -o remount,ro "$WORK/disk"
echo "$SETTINGS" >"$WORK/check.toml"
said=$("$SOCKSTAMP" agent --check --config "$WORK/check.toml" 2>&1) && fail "--check accepts it: $said"
grep -q 'Read-only file system' <<<"$said" || fail "--check says: $said"
# Without [hindsight] nothing is written.
READ_ONLY='for at in /var /run; do
	mount --rbind $at $at && mount -o remount,bind,ro $at
done
exec "$@"'
IN=(unshare --mount sh -c "$READ_ONLY" sh)
agent <<<""
talk
sleep 1
hushed
agent_counted
agent_ends
IN=(env)
mount -o remount,rw "$WORK/disk"
agent <<<"$SETTINGS"
talk
until_so 30 compgen -G "$WORK/disk/var/recent/*"
# A file that is written keeps a disk from becoming read-only by a remount; an error of the disk
# does not ask.
mount -o remount,ro "$WORK/disk" 2>/dev/null || echo "$DAY: a recording keeps the disk writable"
sleep "$BAD"
hushed
agent_counted
sleep 3
lost=$(metric sockstamp_hindsight_lost_messages_total)
agent_ends
kept=$(rows "$WORK"/disk/var/recent/*.parquet)
[ $((kept + lost)) = $((SENT + READ)) ] || fail "$kept recorded and $lost lost of $((SENT + READ))"
echo "$DAY: $kept messages recorded and $lost lost"
after
