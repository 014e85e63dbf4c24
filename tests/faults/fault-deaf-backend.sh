# SPDX-License-Identifier: GPL-2.0-only
# True: One of two backends is gone from the network; its clients wait 1.5 s for a connection and give up.
# Say: 10.77.0.9:8000.*(never answered|no answer|given up|SYN|timed out|to connect)
. ./lib.sh || exit 1
pair
on here ip neigh add 10.77.0.9 lladdr 02:00:00:00:00:99 dev wan
server there 10.77.0.2 8000
client here 10.77.0.2 8000
client here 10.77.0.9 8000 --connections 3 --timeout 1.5
sleep 1; measure here
