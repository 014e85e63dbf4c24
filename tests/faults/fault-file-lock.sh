# SPDX-License-Identifier: GPL-2.0-only
# True: A batch job holds a lock on a file for 300 ms at a time; each request takes the same lock.
# Say: (python3|:8000).*lock on a file
. ./lib.sh || exit 1
pair
program web.py <<'PY'
import os, socket, threading, time, fcntl
def hold():
    while True:
        with open("lockfile", "w") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            time.sleep(0.3)
        time.sleep(0.1)
def serve(peer):
    for line in peer.makefile("rb"):
        with open("lockfile", "w") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
        peer.sendall(b"ok\n")
if os.fork() == 0:
    hold()
listener = socket.create_server(("10.77.0.1", 8000), backlog=128)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
PY
cd "$WORK" || exit 1; start here python3 web.py; cd "$HERE" || exit 1; listening here 8000
client there 10.77.0.1 8000 --size 3
sleep 1; measure here
