# SPDX-License-Identifier: GPL-2.0-only
# True: A subscriber sleeps 250 ms for each piece of news, and gets 30 a second: what comes is read many seconds late, since long before the measurement.
# Say: python3 .*(reads data of 10.77.0.2:1883 .* late|not read data of 10.77.0.2:1883)
. ./lib.sh || exit 1
pair
program broker.py <<'PY'
import socket, threading, time
def push(peer):
    peer.recv(100)
    while True:
        peer.sendall(b"n" * 3000)
        time.sleep(1 / 30)
listener = socket.create_server(("10.77.0.2", 1883))
while True:
    threading.Thread(target=push, args=(listener.accept()[0],), daemon=True).start()
PY
start there python3 "$WORK/broker.py"; listening there 1883
program subscriber.py <<'PY'
import socket, time
broker = socket.create_connection(("10.77.0.2", 1883))
broker.sendall(b"subscribe")
while broker.recv(3000):
    time.sleep(0.25)
PY
start here python3 "$WORK/subscriber.py"
sleep 6; SECONDS_OF_ONE=6; measure here --pid "$LAST"
