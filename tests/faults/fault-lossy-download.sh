# SPDX-License-Identifier: GPL-2.0-only
# True: 4 % of the packets from the server are lost, on a path of 20 ms; its answers are 100 KB long.
# Say: 10.77.0.2:8000.*(missing|lost)
. ./lib.sh || exit 1
pair --delay 0.01 --loss-back 0.04
server there 10.77.0.2 8000 --size 100000
client here 10.77.0.2 8000 --size 100000 --pause 0.1
sleep 1; measure here
