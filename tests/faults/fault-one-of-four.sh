# SPDX-License-Identifier: GPL-2.0-only
# True: One of four processes that share a port (SO_REUSEPORT) is stopped; clients of it give up, the others are answered.
# Say: 10.77.0.2:8000 got no answer and were given up.*python3 .PID [0-9]+.*did not answer.*stopped
. ./lib.sh || exit 1
pair
program server.py <<'PY'
import socket, threading
listener = socket.create_server(("10.77.0.2", 8000), backlog=128, reuse_port=True)
def serve(peer):
    lines = peer.makefile("rb")
    while lines.readline():
        peer.sendall(b"x\n")
while True:
    peer, _ = listener.accept()
    threading.Thread(target=serve, args=(peer,), daemon=True).start()
PY
for process in 1 2 3 4; do start there python3 "$WORK/server.py"; done
listening there 8000; sleep 0.5; kill -STOP "$LAST"
client here 10.77.0.2 8000 --new --size 2 --timeout 1 --connections 8
sleep 1; SECONDS_OF_ONE=8; measure "${AT:-here}"
