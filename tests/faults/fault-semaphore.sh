# SPDX-License-Identifier: GPL-2.0-only
# True: A batch job has a semaphore of System V for 200 ms at a time; the workers of a service wait for it.
# Say: python3 at :8000.*a semaphore that another task or process has
. ./lib.sh || exit 1
pair
program web.py <<'PY'
import ctypes, os, socket, threading, time
libc = ctypes.CDLL(None)
class Operation(ctypes.Structure):
    _fields_ = [("number", ctypes.c_ushort), ("change", ctypes.c_short), ("flags", ctypes.c_short)]
semaphore = libc.semget(0, 1, 0o1600)
def add(change):
    libc.semop(semaphore, ctypes.byref(Operation(0, change, 0)), 1)
def start():
    child = os.fork() == 0
    if child:
        libc.prctl(1, 9)  # PR_SET_PDEATHSIG: it ends with its parent
    return child
add(1)
if start():
    while True:
        add(-1)
        time.sleep(0.2)
        add(1)
        time.sleep(0.05)
def serve(peer):
    for _ in peer.makefile("rb"):
        add(-1)
        add(1)
        peer.sendall(b"ok\n")
listener = socket.create_server(("10.77.0.2", 8000), backlog=64)
for _ in range(3):
    if start():
        break
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
PY
start there unshare --ipc python3 "$WORK/web.py"; listening there 8000
client here 10.77.0.2 8000 --size 3
sleep 1; SECONDS_OF_ONE=6; measure there
