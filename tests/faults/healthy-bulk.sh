# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a bulk flow fills a path of 20 Mbit/s.
# Say: ^$
# Needs: iperf3
. ./lib.sh || exit 1
pair --delay 0.01 --rate 2500000
start there iperf3 -s; listening there 5201
start here iperf3 -c 10.77.0.2 -t 60 -C cubic
sleep 3; measure here
