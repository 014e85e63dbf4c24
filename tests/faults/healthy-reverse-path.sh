# SPDX-License-Identifier: GPL-2.0-only
# True: The reverse path filter drops datagrams of a stranger, beside a load that is well.
# Say: ^$
. ./lib.sh || exit 1
pair
on there sysctl -qw net.ipv4.conf.all.rp_filter=1
server there 10.77.0.2 8000
client here 10.77.0.2 8000
ip -n here addr add 10.99.0.1/32 dev lo
ip -n here neigh replace 10.77.0.2 lladdr "$(on there cat /sys/class/net/wan/address)" dev wan
start here python3 -c '
import socket, time
stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
stranger.bind(("10.99.0.1", 0))
while True:
    stranger.sendto(b".", ("10.77.0.2", 8000))
    time.sleep(0.01)
'
sleep 1; measure here
