# SPDX-License-Identifier: GPL-2.0-only
# True: The server, in another namespace of this host, is stopped by a signal, and holds 4 connections.
# Say: 10.77.0.2:8000.*python3.*stopped
. ./lib.sh || exit 1
pair
server there 10.77.0.2 8000
P=$LAST
client here 10.77.0.2 8000
sleep 1; kill -STOP "$P"
sleep 1; measure here
