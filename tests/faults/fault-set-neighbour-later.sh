# SPDX-License-Identifier: GPL-2.0-only
# True: The server moves to another host, and the link address that somebody set for it goes on leading to the old one.
# Say: 10.77.0.2.*link address of 10.77.0.2 on wan
. ./lib.sh || exit 1
pair
server there 10.77.0.2 8000
ip -n here neigh replace 10.77.0.2 lladdr "$(on there cat /sys/class/net/wan/address)" nud permanent dev wan
client here 10.77.0.2 8000 --timeout 30
sleep 1
ip -n there link set wan address 02:00:00:00:00:99
sleep 1; measure here
