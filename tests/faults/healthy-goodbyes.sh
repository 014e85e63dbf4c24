# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: clients say goodbye after each answer and go on; the server closes the connection then.
# Say: ^$
. ./lib.sh || exit 1
pair
program server.py <<'PY'
import socket, threading
listener = socket.create_server(("10.77.0.2", 8000), backlog=128)
def serve(peer):
    with peer, peer.makefile("rb") as lines:
        while (line := lines.readline()) and line != b"quit\n":
            peer.sendall(b"x\n")
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
PY
program client.py <<'PY'
import socket, time
while True:
    with socket.create_connection(("10.77.0.2", 8000)) as server:
        for _ in range(3):
            server.sendall(b"x\n")
            server.recv(10)
        server.sendall(b"quit\n")
        time.sleep(0.005)
    time.sleep(0.1)
PY
start there python3 "$WORK/server.py"; listening there 8000
start here python3 "$WORK/client.py"
sleep 1; measure here
