# SPDX-License-Identifier: GPL-2.0-only
# True: The RADIUS server answers nothing; its client asks again after 500 ms.
# Say: requests of python3 to 10.77.0.2:1812 got no answer and were asked again
. ./lib.sh || exit 1
pair
start there python3 "$HERE/datagrams.py" serve 10.77.0.2 1812 --lose 1; listening there 1812
start here python3 "$HERE/datagrams.py" ask 10.77.0.2 1812
sleep 1; measure here
