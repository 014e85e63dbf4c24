# SPDX-License-Identifier: GPL-2.0-only
# True: A server sends each answer in eight pieces, one in 150 ms.
# Say: 10.77.0.2:8000.*(pieces|last byte|rest)
. ./lib.sh || exit 1
pair
program web.py <<'PY'
import socket, threading, time
def serve(peer):
    for line in peer.makefile("rb"):
        for piece in range(8):
            peer.sendall(b"." * 999 + b"\n")
            time.sleep(0.15)
listener = socket.create_server(("10.77.0.2", 8000), backlog=128)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
PY
start there python3 "$WORK/web.py"; listening there 8000
client here 10.77.0.2 8000 --size 8000
sleep 1; SECONDS_OF_ONE=8; measure here
