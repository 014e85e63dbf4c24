# SPDX-License-Identifier: GPL-2.0-only
# True: The server accepts one connection in 50 ms; more come.
# Say: accept
. ./lib.sh || exit 1
host one
server one 127.0.0.1 8000 --late 0.05
client one 127.0.0.1 8000 --new --connections 4 --pause 0.05
sleep 1; measure one
