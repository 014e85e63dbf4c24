# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a command asks each half second, and is answered at once.
# Say: ^$
# Needs: nft
. ./lib.sh || exit 1
far
server there "" 8000 --size 120
program watch.py <<'PY'
import socket, time
service = socket.create_connection(("10.77.0.2", 8000))
for _ in range(10):
    service.sendall(b"status\n")
    rest = 120
    while rest:
        rest -= len(service.recv(rest))
    time.sleep(0.5)
PY
ended here python3 "$WORK/watch.py"
