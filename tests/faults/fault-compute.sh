# SPDX-License-Identifier: GPL-2.0-only
# True: A server computes for 60 ms for each request, and several clients ask it.
# Say: python3 at :8000.*CPU
. ./lib.sh || exit 1
pair
server here 10.77.0.1 8000 --delay 0.06 --spin
client there 10.77.0.1 8000 --connections 5 --pause 0.1
sleep 1; SECONDS_OF_ONE=8; measure here
