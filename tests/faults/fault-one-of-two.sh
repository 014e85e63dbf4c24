# SPDX-License-Identifier: GPL-2.0-only
# True: One of two servers takes 80 ms for each answer, the other none.
# Say: 10.77.0.2:8002
. ./lib.sh || exit 1
pair
server there 10.77.0.2 8001
server there 10.77.0.2 8002 --delay 0.08
client here 10.77.0.2 8001
client here 10.77.0.2 8002
sleep 1; measure here
