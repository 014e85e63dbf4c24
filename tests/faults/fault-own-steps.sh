# SPDX-License-Identifier: GPL-2.0-only
# True: A download of 2 MB waits for its client's own window of 64 KB (as in HTTP/2), once in a round trip of 60 ms.
# Say: 10\.77\.0\.2:8000.*step by step.*round trip
. ./lib.sh || exit 1
pair --delay 0.03
program files.py <<'PY'
import socket, threading
SIZE, STEP = 2_000_000, 32_768
def serve(client):
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    words = client.makefile("rb")
    while words.read(60):
        window, rest = 2 * STEP, SIZE
        while rest:
            if not window:
                words.read(13)
                window += STEP
            piece = min(window, rest, 16384)
            client.sendall(b"." * piece)
            window, rest = window - piece, rest - piece
listener = socket.create_server(("10.77.0.2", 8000))
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
PY
program fetch.py <<'PY'
import socket, time
SIZE, STEP = 2_000_000, 32_768
files = socket.create_connection(("10.77.0.2", 8000))
files.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while True:
    files.sendall(b"?" * 60)
    window, unread, rest = 2 * STEP, 0, SIZE
    while rest:
        got = len(files.recv(65536))
        rest, unread = rest - got, unread + got
        while unread >= STEP and window < SIZE:
            files.sendall(b"+" * 13)
            unread, window = unread - STEP, window + STEP
    time.sleep(0.3)
PY
start there python3 "$WORK/files.py"; listening there 8000
start here python3 "$WORK/fetch.py"
sleep 1; SECONDS_OF_ONE=8; measure here
