# SPDX-License-Identifier: GPL-2.0-only
# True: The link of this host goes down for 0.6 s, again and again.
# Say: link.*wan.*(down)
. ./lib.sh || exit 1
pair
server there 10.77.0.2 8000
client here 10.77.0.2 8000 --pause 0.05
start there bash -c 'while sleep 1.4; do ip link set wan down; sleep 0.6; ip link set wan up; done'
sleep 1; SECONDS_OF_ONE=9; measure here
