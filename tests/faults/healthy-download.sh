# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a download of 2 MB is sent as fast as can be, on a path of 60 ms, and its client confirms each 64 KB.
# Say: ^$
. ./lib.sh || exit 1
pair --delay 0.03
program files.py <<'PY'
import socket, threading
def serve(client):
    words = client.makefile("rb")
    while words.read(60):
        client.sendall(b"." * 2_000_000)
        words.read(13 * 30)
listener = socket.create_server(("10.77.0.2", 8000))
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
PY
program fetch.py <<'PY'
import socket, time
files = socket.create_connection(("10.77.0.2", 8000))
files.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while True:
    files.sendall(b"?" * 60)
    unread, rest = 0, 2_000_000
    while rest:
        got = len(files.recv(65536))
        rest, unread = rest - got, unread + got
        while unread >= 65536:
            files.sendall(b"+" * 13)
            unread -= 65536
    time.sleep(0.5)
PY
start there python3 "$WORK/files.py"; listening there 8000
start here python3 "$WORK/fetch.py"
sleep 1; SECONDS_OF_ONE=8; measure here
