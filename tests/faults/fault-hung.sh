# SPDX-License-Identifier: GPL-2.0-only
# True: The server is stopped, and its clients give up after a second.
# Say: 10.77.0.2:8000.*(no answer|does not answer|gave up|given up)
. ./lib.sh || exit 1
pair
server there 10.77.0.2 8000
hung=$(on there ss -Hlntp 'sport = 8000' | sed 's/.*pid=\([0-9]*\).*/\1/')
client here 10.77.0.2 8000 --timeout 1
sleep 1; kill -STOP "$hung"; sleep 1; measure here
kill -CONT "$hung"
