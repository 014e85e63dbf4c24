# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing listens on the port.
# Say: refused
. ./lib.sh || exit 1
pair
client here 10.77.0.2 8000 --connections 2
sleep 1; measure here
