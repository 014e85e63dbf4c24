# SPDX-License-Identifier: GPL-2.0-only
# True: The server, in another namespace of this host, is stopped; its accept queue has room for three.
# Say: accept queue.*Recv-Q 3, Send-Q 2.*python3.*stopped
. ./lib.sh || exit 1
pair
server there 10.77.0.2 8000 --backlog 2
P=$LAST
client here 10.77.0.2 8000 --new --connections 8 --timeout 3
sleep 1; kill -STOP "$P"
sleep 3; measure here
