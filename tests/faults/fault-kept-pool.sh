# SPDX-License-Identifier: GPL-2.0-only
# True: A server has a pool of three threads, each of which stays with its connection; clients that keep theirs open have all.
# Say: python3 at :8000 .*each of 3 for a client of its own, which asks nothing
. ./lib.sh || exit 1
pair
program server.py <<'PY'
import concurrent.futures, socket
workers = concurrent.futures.ThreadPoolExecutor(3)
def serve(client):
    while client.recv(1000):
        client.sendall(b"answer")
    client.close()
listener = socket.create_server(("10.77.0.2", 8000))
while True:
    workers.submit(serve, listener.accept()[0])
PY
start there python3 "$WORK/server.py"; listening there 8000
program ask.py <<'PY'
import socket, threading, time
def ask():
    while True:
        with socket.create_connection(("10.77.0.2", 8000)) as server:
            server.sendall(b"question")
            server.recv(100)
            time.sleep(0.7)
for _ in range(8):
    threading.Thread(target=ask).start()
    time.sleep(0.1)
PY
start here python3 "$WORK/ask.py"
sleep 2; SECONDS_OF_ONE=8 measure there
