# SPDX-License-Identifier: GPL-2.0-only
# True: Each request runs a child process for 150 ms.
# Say: (python3|:8000).*child process
. ./lib.sh || exit 1
pair
program web.py <<'PY'
import socket, threading, subprocess
def serve(peer):
    for line in peer.makefile("rb"):
        subprocess.run(["sleep", "0.15"])
        peer.sendall(b"ok\n")
listener = socket.create_server(("10.77.0.1", 8000), backlog=128)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
PY
start here python3 "$WORK/web.py"; listening here 8000
client there 10.77.0.1 8000 --size 3
sleep 1; measure here
