# SPDX-License-Identifier: GPL-2.0-only
# True: A device on the path changes a bit of one packet in ten: the server's kernel drops them for their checksums.
# Say: 10.77.0.2:8000.*TCP_CSUM
. ./lib.sh || exit 1
pair --corrupt 0.1
server there 10.77.0.2 8000
client here 10.77.0.2 8000 --write 400 --pause 0.05
sleep 1; measure here
