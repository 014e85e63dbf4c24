# SPDX-License-Identifier: GPL-2.0-only
# True: Packets above 1300 bytes vanish on the way there; small requests work, large ones hang.
# Say: full-size|MTU
. ./lib.sh || exit 1
pair --delay 0.005 --most 1300
server there 10.77.0.2 8000
client here 10.77.0.2 8000
client here 10.77.0.2 8000 --write 20000 --timeout 2
sleep 1; measure here
