# SPDX-License-Identifier: GPL-2.0-only
# True: A client sends each request in six pieces, one in 120 ms; the server answers at once.
# Say: (requests|request).*(:8000|python3).*
. ./lib.sh || exit 1
pair
lines here 10.77.0.1 8000 <<'PY'
def answer(peer):
    peer.sendall(b"ok\n")
PY
program ask.py <<'PY'
import socket, threading, time
def ask():
    server = socket.create_connection(("10.77.0.1", 8000))
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while True:
        for piece in range(6):
            server.sendall(b"x" * 900 + (b"\n" if piece == 5 else b""))
            time.sleep(0.12)
        server.recv(100)
        time.sleep(0.3)
for _ in range(3):
    threading.Thread(target=ask).start()
PY
start there python3 "$WORK/ask.py"
sleep 1; SECONDS_OF_ONE=8; measure here
