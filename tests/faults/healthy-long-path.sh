# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: the path takes 60 ms.
# Say: ^$
. ./lib.sh || exit 1
pair --delay 0.03
server there 10.77.0.2 8000
client here 10.77.0.2 8000
sleep 1; measure here
