# SPDX-License-Identifier: GPL-2.0-only
# True: Two faults: the service at 10.77.0.2 takes 90 ms for each answer, and connects to a cache at 10.77.0.9 are given up.
# Say: (10.77.0.9.*(given up|no answer|ARP)|10.77.0.2:8000 takes 9)
# Also: (10.77.0.9.*10.77.0.2:8000 takes 9|10.77.0.2:8000 takes 9.*10.77.0.9)
. ./lib.sh || exit 1
pair
server there 10.77.0.2 8000 --delay 0.09
client here 10.77.0.2 8000
client here 10.77.0.9 11211 --timeout 0.7
sleep 1; SECONDS_OF_ONE=8; measure here
