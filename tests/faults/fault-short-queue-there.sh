# SPDX-License-Identifier: GPL-2.0-only
# True: The server, in another namespace of this host, accepts one in 300 ms, from a queue of three.
# Say: accept queue of the service, on this host, is full
# Also: in network namespace there of this host
. ./lib.sh || exit 1
pair
server there 10.77.0.2 8000 --backlog 2 --late 0.3
client here 10.77.0.2 8000 --new --connections 8 --pause 0.1 --timeout 6
sleep 2; SECONDS_OF_ONE=6; measure here
