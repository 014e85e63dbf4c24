# SPDX-License-Identifier: GPL-2.0-only
# True: A service reports each request in a message queue of POSIX, which is full: its reader takes one in 100 ms.
# Say: python3 at :8000.*a message queue of processes that is full
. ./lib.sh || exit 1
pair
program web.py <<'PY'
import ctypes, os, socket, threading, time
libc = ctypes.CDLL(None)
queue = libc.mq_open(b"/reports", os.O_RDWR | os.O_CREAT, 0o600, None)
if os.fork() == 0:
    libc.prctl(1, 9)  # PR_SET_PDEATHSIG: it ends with its parent
    report = ctypes.create_string_buffer(8192)
    while True:
        libc.mq_receive(queue, report, len(report), None)
        time.sleep(0.1)
def serve(peer):
    for _ in peer.makefile("rb"):
        libc.mq_send(queue, b"served", 6, 0)
        peer.sendall(b"ok\n")
listener = socket.create_server(("10.77.0.2", 8000), backlog=64)
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
PY
start there unshare --ipc python3 "$WORK/web.py"; listening there 8000
client here 10.77.0.2 8000 --size 3
sleep 3; SECONDS_OF_ONE=6; measure there
