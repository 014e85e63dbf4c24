# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: each of four threads asks on a connection of its own, one after the other.
# Say: ^$
# Needs: nft
. ./lib.sh || exit 1
far
server there "" 8000 --delay 0.03
client here 10.77.0.2 8000 --pause 0 --connections 4
sleep 1; measure here
