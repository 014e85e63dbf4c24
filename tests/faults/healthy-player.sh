# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a player gets 300 KB at once, and pauses for a second before the next.
# Say: ^$
. ./lib.sh || exit 1
pair --delay 0.005
server here 10.77.0.1 8000 --size 300000
client there 10.77.0.1 8000 --size 300000 --connections 2 --pause 1
sleep 1; measure here
