# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a script opens a session of a database for two queries, and ends it, twice a second.
# Say: ^$
# Needs: nft
. ./lib.sh || exit 1
far
program base.py <<'PY'
import socket, threading
def serve(client):
    while client.recv(1000):
        client.sendall(b"Z\0\0\0\5I")
    client.close()
listener = socket.create_server(("", 5432))
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
PY
start there python3 "$WORK/base.py"; listening there 5432
program script.py <<'PY'
import socket, time
while True:
    base = socket.create_connection(("10.77.0.2", 5432))
    for _ in range(2):
        base.sendall(b"Q\0\0\0\15SELECT 1\0")
        base.recv(1000)
    base.sendall(b"X\0\0\0\4")
    base.close()
    time.sleep(0.5)
PY
start here python3 "$WORK/script.py"
sleep 1; measure here
