# SPDX-License-Identifier: GPL-2.0-only
# True: A broker tells its publisher at once that it is blocked, and takes its message 1.5 s later; the publisher's clients wait.
# Say: 10\.77\.0\.2:5672
. ./lib.sh || exit 1
pair
program broker.py <<'PY'
import socket, threading, time
def serve(publisher):
    while publisher.recv(1000):
        publisher.sendall(b"blocked\n")
        time.sleep(1.5)
        publisher.sendall(b"taken\n")
listener = socket.create_server(("10.77.0.2", 5672))
while True:
    threading.Thread(target=serve, args=listener.accept()[:1]).start()
PY
start there python3 "$WORK/broker.py"; listening there 5672
program shop.py <<'PY'
import selectors, socket
broker = socket.create_connection(("10.77.0.2", 5672))
events = selectors.EpollSelector()
events.register(broker, selectors.EVENT_READ)
listener = socket.create_server(("10.77.0.1", 8080))
while True:
    client, _ = listener.accept()
    client.recv(100)
    broker.sendall(b"order\n")
    got = b""
    while b"taken" not in got:
        events.select()
        got += broker.recv(100)
    client.sendall(b"done\n")
    client.close()
PY
start here python3 "$WORK/shop.py"; listening here 8080
client there 10.77.0.1 8080 --connections 1 --new --pause 0.1 --size 5
sleep 2; SECONDS_OF_ONE=8; measure here
