# SPDX-License-Identifier: GPL-2.0-only
# True: The server's host does not scale windows: uploads of 1 MB on a path of 60 ms go by 64 KB for each round trip.
# Say: 10.77.0.2.*scaled windows
. ./lib.sh || exit 1
pair --delay 0.03
on there sysctl -qw net.ipv4.tcp_window_scaling=0
server there 10.77.0.2 8000
client here 10.77.0.2 8000 --write 1000000 --connections 2
sleep 1; measure here
