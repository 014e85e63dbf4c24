# SPDX-License-Identifier: GPL-2.0-only
# True: Packets overtake each other on a path of 20 ms: one in ten comes 30 ms late; none is lost.
# Say: overtake each other
. ./lib.sh || exit 1
pair --delay 0.01 --overtake 0.1 --by 0.03
server here 10.77.0.1 8000 --size 400000
client there 10.77.0.1 8000 --size 400000
sleep 1; SECONDS_OF_ONE=8; measure here
