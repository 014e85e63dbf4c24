# SPDX-License-Identifier: GPL-2.0-only
# True: The server takes 60 ms for each answer.
# Say: 10.77.0.2:8000 takes 6.* to answer
. ./lib.sh || exit 1
pair
server there 10.77.0.2 8000 --delay 0.06
client here 10.77.0.2 8000
sleep 1; measure here
