# SPDX-License-Identifier: GPL-2.0-only
# True: Each third request makes the server's worker crash: the connection is reset while the client waits.
# Say: 10.77.0.2:8000.*reset
. ./lib.sh || exit 1
pair
program server.py <<'PY'
import socket, struct, threading
listener = socket.create_server(("10.77.0.2", 8000))
def serve(peer):
    for count in range(3):
        peer.recv(1000)
        if count < 2:
            peer.sendall(b"answer")
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],)).start()
PY
start there python3 "$WORK/server.py"; listening there 8000
program ask.py <<'PY'
import socket, threading, time
def ask():
    server = None
    while True:
        try:
            server = server or socket.create_connection(("10.77.0.2", 8000))
            server.sendall(b"question")
            server.recv(100)
        except OSError:
            server.close()
            server = None
        time.sleep(0.15)
for _ in range(3):
    threading.Thread(target=ask).start()
PY
start here python3 "$WORK/ask.py"
sleep 1; measure here
