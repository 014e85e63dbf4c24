# SPDX-License-Identifier: GPL-2.0-only
# True: 8 % of the packets from the server are lost, on a path of 20 ms.
# Say: lost|the way there and back
. ./lib.sh || exit 1
pair --delay 0.01 --loss-back 0.08
server there 10.77.0.2 8000
client here 10.77.0.2 8000 --connections 8 --pause 0.05
sleep 1; measure here
