# SPDX-License-Identifier: GPL-2.0-only
# True: The agent of SNMP does not answer one question in fifteen; its client asks again after 500 ms.
# Say: requests of python3 to 10.77.0.2:161 got no answer and were asked again
. ./lib.sh || exit 1
pair
start there python3 "$HERE/datagrams.py" serve 10.77.0.2 161 --lose 15; listening there 161
start here python3 "$HERE/datagrams.py" ask 10.77.0.2 161
sleep 1; measure here
