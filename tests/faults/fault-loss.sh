# SPDX-License-Identifier: GPL-2.0-only
# True: 5 % of the packets to the server are lost, on a path of 20 ms.
# Say: lost|sent again
. ./lib.sh || exit 1
pair --delay 0.01 --loss 0.05
server there 10.77.0.2 8000
client here 10.77.0.2 8000 --connections 8 --pause 0.05
sleep 1; measure here
