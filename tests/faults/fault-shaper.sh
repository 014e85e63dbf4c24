# SPDX-License-Identifier: GPL-2.0-only
# True: The queue of our own device is full: a shaper of 5 Mbit/s, and a bulk flow.
# Say: packet scheduler|tx.qdisc
# Needs: iperf3
. ./lib.sh || exit 1
pair
tc -n here qdisc add dev wan root tbf rate 5mbit burst 10kb limit 100000
server there 10.77.0.2 8000
client here 10.77.0.2 8000 --connections 2
start there iperf3 -s; listening there 5201
start here iperf3 -c 10.77.0.2 -t 60 -C reno
sleep 2; measure here
