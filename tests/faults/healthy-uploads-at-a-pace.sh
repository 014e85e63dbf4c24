# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: three programs upload figures as they get them, each on a connection that it keeps, or in many parts.
# Say: ^$
. ./lib.sh || exit 1
pair
server there 10.77.0.2 8000
program upload.py <<'PY'
import socket, threading, time
def upload(parts, pause, keeps):
    server = None
    while True:
        if server is None:
            server = socket.create_connection(("10.77.0.2", 8000))
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in range(parts):
            time.sleep(pause)
            server.sendall(b"x" * 2000 + (b"\n" if part == parts - 1 else b""))
        server.recv(1000)
        if not keeps:
            server.close()
            server = None
for given in [(2, 0.5, True), (8, 0.1, False), (6, 0.2, True)]:
    threading.Thread(target=upload, args=given).start()
PY
start here python3 "$WORK/upload.py"
sleep 1; SECONDS_OF_ONE=8; measure here
