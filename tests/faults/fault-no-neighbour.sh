# SPDX-License-Identifier: GPL-2.0-only
# True: A server on the same network is switched off: nobody answers to its address (ARP).
# Say: ARP.*10.77.0.2
. ./lib.sh || exit 1
pair
server there 10.77.0.2 8000
client here 10.77.0.2 8000
sleep 1
on there ip link set wan arp off; on there ip link set wan address 02:00:00:00:00:99
on here ip neigh flush dev wan
sleep 1; SECONDS_OF_ONE=8; measure here
