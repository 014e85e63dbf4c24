# SPDX-License-Identifier: GPL-2.0-only
# True: 60 KB a second after a pause each, on a path of 60 ms: slow start begins again.
# Say: slow start
. ./lib.sh || exit 1
pair --delay 0.03
for at in here there; do on $at sysctl -qw net.ipv4.tcp_congestion_control=reno; done
server there 10.77.0.2 8000 --size 200000
client here 10.77.0.2 8000 --size 200000 --connections 1 --pause 0.8
sleep 2; measure there
