# SPDX-License-Identifier: GPL-2.0-only
# True: Requests wait for each other: 20 ms of each are under one lock.
# Say: :8000 takes .* to answer
. ./lib.sh || exit 1
host one
server one 127.0.0.1 8000 --delay 0.02 --lock
client one 127.0.0.1 8000 --connections 8 --pause 0.05
sleep 1; measure one
