# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: the link address of the server is set by hand, and is right.
# Say: ^$
. ./lib.sh || exit 1
pair
server there 10.77.0.2 8000
ip -n here neigh replace 10.77.0.2 lladdr "$(on there cat /sys/class/net/wan/address)" nud permanent dev wan
client here 10.77.0.2 8000
sleep 1; measure here
