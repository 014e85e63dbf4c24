# SPDX-License-Identifier: GPL-2.0-only
# True: The client asks for ECN, and a path drops such SYNs: each connection takes a second longer.
# Say: 10\.77\.0\.2:8000.*second SYN.*ECN
. ./lib.sh || exit 1
pair --no-ecn
on here sysctl -qw net.ipv4.tcp_ecn=1
server there 10.77.0.2 8000
client here 10.77.0.2 8000 --new --pause 0.1 --connections 8
sleep 1; SECONDS_OF_ONE=8; measure here
