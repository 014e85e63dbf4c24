# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: windows are not scaled, and small requests on a path of 60 ms need no larger ones.
# Say: ^$
. ./lib.sh || exit 1
pair --delay 0.03
on there sysctl -qw net.ipv4.tcp_window_scaling=0
server there 10.77.0.2 8000
client here 10.77.0.2 8000 --write 2000
sleep 1; measure here
