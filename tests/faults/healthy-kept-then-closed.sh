# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: answers have a length, and the server closes connections that nobody uses for 400 ms.
# Say: ^$
. ./lib.sh || exit 1
pair
lines there 10.77.0.2 8000 <<'PY'
import time
def answer(peer):
    peer.sendall(b"page\n" * 100)
    time.sleep(0.4)
    peer.shutdown(socket.SHUT_RDWR)
PY
program client.py <<'PY'
import socket, time
while True:
    with socket.create_connection(("10.77.0.2", 8000)) as server:
        server.sendall(b"page\n")
        left = 500
        while left:
            left -= len(server.recv(left))
        time.sleep(0.6)
PY
start here python3 "$WORK/client.py"
sleep 1; measure here
