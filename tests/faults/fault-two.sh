# SPDX-License-Identifier: GPL-2.0-only
# True: Two faults: the service at 8001 takes 80 ms for each answer, and nothing listens at 8002.
# Say: 10.77.0.2:8001 takes
# Also: 10.77.0.2:8002.*refused
. ./lib.sh || exit 1
pair
server there 10.77.0.2 8001 --delay 0.08
client here 10.77.0.2 8001
client here 10.77.0.2 8002
sleep 1; measure here
