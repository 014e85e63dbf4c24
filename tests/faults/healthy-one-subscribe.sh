# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: clients subscribe once at a service, which pushes news at times of its own, the first after a second or so.
# Say: ^$
. ./lib.sh || exit 1
pair
program news.py <<'PY'
import random, socket, threading, time
def push(client):
    client.recv(100)
    while True:
        time.sleep(random.uniform(0.3, 1.5))
        client.sendall(b"news\n")
listener = socket.create_server(("10.77.0.2", 7000))
while True:
    threading.Thread(target=push, args=listener.accept()[:1]).start()
PY
start there python3 "$WORK/news.py"; listening there 7000
program subscribe.py <<'PY'
import socket, threading, time
def subscribe():
    service = socket.create_connection(("10.77.0.2", 7000))
    service.sendall(b"SUBSCRIBE news\n")
    while service.recv(100):
        pass
for _ in range(6):
    threading.Thread(target=subscribe).start()
    time.sleep(0.5)
PY
start here python3 "$WORK/subscribe.py"
SECONDS_OF_ONE=6; measure here
