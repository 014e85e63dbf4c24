# SPDX-License-Identifier: GPL-2.0-only
# True: A database has two clients, as many as it may; others it answers with a fatal error, and closes. Its host cannot be seen.
# Say: connections of python3 to 10\.77\.0\.2:5432 were ended by the peer at once.*as many connections as it may
# Needs: nft
. ./lib.sh || exit 1
far
program base.py <<'PY'
import socket, threading
full = threading.Semaphore(2)
def serve(client):
    client.recv(1000)
    if not full.acquire(blocking=False):
        words = b"SFATAL\0VFATAL\0C53300\0Msorry, too many clients already\0\0"
        client.sendall(b"E" + (len(words) + 4).to_bytes(4, "big") + words)
        client.close()
        return
    client.sendall(b"R\0\0\0\10\0\0\0\0Z\0\0\0\5I")
    while client.recv(1000):
        client.sendall(b"C\0\0\0\15SELECT 1\0Z\0\0\0\5I")
listener = socket.create_server(("", 5432))
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
PY
start there python3 "$WORK/base.py"; listening there 5432
program shop.py <<'PY'
import socket, threading, time
HELLO = b"\0\0\0\40\0\3\0\0user\0shop\0database\0shop\0\0"
def open_one():
    base = socket.create_connection(("10.77.0.2", 5432))
    base.sendall(HELLO)
    base.recv(1000)
    return base
def keep():
    base = open_one()
    while True:
        base.sendall(b"Q\0\0\0\15SELECT 1\0")
        base.recv(1000)
        time.sleep(0.2)
for _ in range(2):
    threading.Thread(target=keep, daemon=True).start()
time.sleep(0.5)
while True:
    open_one().close()
    time.sleep(0.3)
PY
start here python3 "$WORK/shop.py"
sleep 1; measure here
