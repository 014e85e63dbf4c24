# SPDX-License-Identifier: GPL-2.0-only
# True: A route to one of two services is missing; the other one answers.
# Say: 10.78.0.9:9000.*(unreachable|not let out|no route|no way)
. ./lib.sh || exit 1
pair
on here ip route add unreachable 10.78.0.0/16
server there 10.77.0.2 8000
client here 10.77.0.2 8000
client here 10.78.0.9 9000 --connections 2
sleep 1; measure here
