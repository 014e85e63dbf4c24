# SPDX-License-Identifier: GPL-2.0-only
# True: One stall of 300 ms in five seconds is no finding.
# Say: ^$
. ./lib.sh || exit 1
host one
server one 127.0.0.1 8000
stalled=$(on one ss -Hlntp 'sport = 8000' | sed 's/.*pid=\([0-9]*\).*/\1/')
client one 127.0.0.1 8000
sleep 1; (sleep 2; kill -STOP "$stalled"; sleep 0.3; kill -CONT "$stalled") &
measure one
