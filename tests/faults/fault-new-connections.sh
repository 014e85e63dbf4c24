# SPDX-License-Identifier: GPL-2.0-only
# True: Each request opens a connection, on a path of 40 ms.
# Say: handshake|connect
. ./lib.sh || exit 1
pair --delay 0.02
server there 10.77.0.2 8000
client here 10.77.0.2 8000 --new
sleep 1; measure here
