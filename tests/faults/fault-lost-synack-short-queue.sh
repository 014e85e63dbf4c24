# SPDX-License-Identifier: GPL-2.0-only
# True: Half of the answers to SYNs are lost on the way back. The server, on this host, has a short accept queue, and accepts at once.
# Say: connect to 10.77.0.2:8000.*SYNs are sent again
. ./lib.sh || exit 1
pair --delay 0.001 --synack-loss 0.5
server there 10.77.0.2 8000 --backlog 2
client here 10.77.0.2 8000 --new
sleep 1; SECONDS_OF_ONE=8; measure here
