# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a server resizes a picture in 40 ms of its CPU, for one client at a time.
# Say: ^$
. ./lib.sh || exit 1
pair
server there 10.77.0.2 8000 --delay 0.04 --spin
client here 10.77.0.2 8000 --connections 1 --pause 0.3
sleep 1; measure there
