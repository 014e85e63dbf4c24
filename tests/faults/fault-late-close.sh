# SPDX-License-Identifier: GPL-2.0-only
# True: Answers have no length, and the server closes a connection 400 ms after it has sent all of one.
# Say: python3 waits 40. ms for the end of answers of 10\.77\.0\.2:8000.*closes late
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
    time.sleep(0.3)
    with socket.create_connection(("10.77.0.2", 8000)) as server:
        server.sendall(b"page\n")
        while server.recv(1000):
            pass
PY
start here python3 "$WORK/client.py"
sleep 1; measure here
