# SPDX-License-Identifier: GPL-2.0-only
# True: A server of one task reads a slow upload of 10.77.0.3 for 2.5 s; other clients wait for that.
# Say: 10.77.0.2:8000 (takes|does not answer).*for data of one client, 10.77.0.3
. ./lib.sh || exit 1
pair
ip -n here addr add 10.77.0.3/24 dev wan
program server.py <<'PY'
import socket
listener = socket.create_server(("10.77.0.2", 8000), backlog=128)
while True:
    peer, _ = listener.accept()
    with peer, peer.makefile("rb") as request:
        request.read(int(request.readline()))
        peer.sendall(b"done\n")
PY
program client.py <<'PY'
import socket, threading, time
def ask(source, parts, pause):
    while True:
        with socket.create_connection(("10.77.0.2", 8000), source_address=(source, 0)) as server:
            server.sendall(b"%d\n" % (parts * 3000))
            for _ in range(parts):
                server.sendall(b"x" * 3000)
                time.sleep(pause)
            server.recv(10)
        time.sleep(0.3)
for _ in range(3):
    threading.Thread(target=ask, args=("10.77.0.1", 1, 0)).start()
threading.Thread(target=ask, args=("10.77.0.3", 10, 0.25)).start()
PY
start there python3 "$WORK/server.py"; listening there 8000
start here python3 "$WORK/client.py"
sleep 1; SECONDS_OF_ONE=8; measure "${AT:-here}"
