# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: answers come at once, with pauses between requests.
# Say: ^$
. ./lib.sh || exit 1
host one
server one 127.0.0.1 8000
client one 127.0.0.1 8000
sleep 1; measure one
