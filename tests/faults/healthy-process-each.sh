# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a server starts a process for each connection, which answers after some work of 15 ms.
# Say: ^$
. ./lib.sh || exit 1
pair
program server.py <<'PY'
import os, signal, socket, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
listener = socket.create_server(("10.77.0.2", 8000), backlog=100)
while True:
    peer, _ = listener.accept()
    if os.fork() == 0:
        peer.recv(1000)
        time.sleep(0.015)
        peer.sendall(b"x" * 200)
        os._exit(0)
    peer.close()
PY
start there python3 "$WORK/server.py"; SERVER=$LAST; listening there 8000
program ask.py <<'PY'
import socket, threading, time
def ask():
    while True:
        with socket.create_connection(("10.77.0.2", 8000)) as server:
            server.sendall(b"question")
            while server.recv(1000):
                pass
        time.sleep(0.3)
for _ in range(3):
    threading.Thread(target=ask).start()
PY
start here python3 "$WORK/ask.py"
sleep 2; measure there -p "$SERVER"
