# SPDX-License-Identifier: GPL-2.0-only
# True: A thread of the server holds a lock for 300 ms at a time; each request takes the same lock.
# Say: (python3|:8000).*sleep: a lock
. ./lib.sh || exit 1
pair
program web.py <<'PY'
import socket, threading, time
held = threading.Lock()
def hold():
    while True:
        with held:
            time.sleep(0.3)
        time.sleep(0.1)
def serve(peer):
    for line in peer.makefile("rb"):
        with held:
            pass
        peer.sendall(b"ok\n")
threading.Thread(target=hold, daemon=True).start()
listener = socket.create_server(("10.77.0.1", 8000), backlog=128)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
PY
start here python3 "$WORK/web.py"; listening here 8000
client there 10.77.0.1 8000 --size 3
sleep 1; measure here
