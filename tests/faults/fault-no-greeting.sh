# SPDX-License-Identifier: GPL-2.0-only
# True: Half of a service's connections never get its greeting; the client gives them up after a second.
# Say: 10.77.0.2:3306.*(greet)
. ./lib.sh || exit 1
pair
program service.py <<'PY'
import itertools, socket, threading
def serve(peer, number):
    if number % 2:
        peer.sendall(b"5.7 ready\n")
    for line in peer.makefile("rb"):
        peer.sendall(b"rows\n")
listener = socket.create_server(("10.77.0.2", 3306), backlog=128)
for number in itertools.count():
    peer = listener.accept()[0]
    threading.Thread(target=serve, args=(peer, number), daemon=True).start()
PY
start there python3 "$WORK/service.py"; listening there 3306
program ask.py <<'PY'
import socket, time
while True:
    service = socket.create_connection(("10.77.0.2", 3306), timeout=1)
    try:
        service.recv(100)
        service.sendall(b"select\n")
        service.recv(100)
    except TimeoutError:
        pass
    service.close()
    time.sleep(0.1)
PY
start here python3 "$WORK/ask.py"
sleep 1; SECONDS_OF_ONE=8; measure here
