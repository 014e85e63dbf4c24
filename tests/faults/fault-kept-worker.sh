# SPDX-License-Identifier: GPL-2.0-only
# True: A server has one worker, which stays with each client for 400 ms after its request (keep-alive); others wait.
# Say: 8000.*accept
. ./lib.sh || exit 1
pair
program server.py <<'PY'
import socket
listener = socket.create_server(("10.77.0.2", 8000))
while True:
    peer, _ = listener.accept()
    peer.settimeout(0.4)
    try:
        while peer.recv(1000):
            peer.sendall(b"answer")
    except OSError:
        pass
    peer.close()
PY
start there python3 "$WORK/server.py"; listening there 8000
program ask.py <<'PY'
import socket, threading, time
def ask():
    while True:
        server = socket.create_connection(("10.77.0.2", 8000))
        server.sendall(b"question")
        server.recv(100)
        time.sleep(1)
        server.close()
for _ in range(3):
    threading.Thread(target=ask).start()
PY
start here python3 "$WORK/ask.py"
sleep 1; measure there
