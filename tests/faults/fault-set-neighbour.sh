# SPDX-License-Identifier: GPL-2.0-only
# True: Somebody set a link address of the server that is another host's: nothing reaches it.
# Say: 10.77.0.2.*link address of 10.77.0.2 on wan
. ./lib.sh || exit 1
pair
server there 10.77.0.2 8000
ip -n here neigh replace 10.77.0.2 lladdr 02:00:00:00:00:99 nud permanent dev wan
client here 10.77.0.2 8000 --timeout 1.5
sleep 1; measure here
