# SPDX-License-Identifier: GPL-2.0-only
# True: A device on the path changes a bit of one packet of uploads in ten: measured at the server, which drops them.
# Say: 8000.*TCP_CSUM
. ./lib.sh || exit 1
pair --corrupt 0.05 --delay 0.005
server there 10.77.0.2 8000
client here 10.77.0.2 8000 --write 100000 --pause 0.05
sleep 1; measure there
