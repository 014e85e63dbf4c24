# SPDX-License-Identifier: GPL-2.0-only
# True: A service has one connection to a backend of 25 ms; its eight clients ask again at once, so that each waits 200 ms.
# Say: at :8080 takes .*queue inside
. ./lib.sh || exit 1
pair
server there 10.77.0.2 8000 --delay 0.025
program front.py <<'PY'
import socket, threading
backend = socket.create_connection(("10.77.0.2", 8000))
answers = backend.makefile("rb")
turn = threading.Lock()
def serve(client):
    while client.recv(100):
        with turn:
            backend.sendall(b"?\n")
            answer = answers.readline()
        client.sendall(answer)
listener = socket.create_server(("127.0.0.1", 8080))
while True:
    threading.Thread(target=serve, args=listener.accept()[:1]).start()
PY
start here python3 "$WORK/front.py"; listening here 8080
client here 127.0.0.1 8080 --connections 8 --pause 0
sleep 1; measure here
