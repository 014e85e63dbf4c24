# SPDX-License-Identifier: GPL-2.0-only
# True: Eight threads of a client share two connections to a service that takes 50 ms; its host cannot be seen.
# Say: 10\.77\.0\.2:8000.*wait for their turn.*2 connections
# Needs: nft
. ./lib.sh || exit 1
far
server there "" 8000 --delay 0.05
program shop.py <<'PY'
import queue, socket, threading, time
pool = queue.Queue()
for _ in range(2):
    pool.put(socket.create_connection(("10.77.0.2", 8000)))
def work():
    while True:
        service = pool.get()
        service.sendall(b"question\n")
        rest = 200
        while rest:
            rest -= len(service.recv(rest))
        pool.put(service)
        time.sleep(0.02)
for _ in range(8):
    threading.Thread(target=work, daemon=True).start()
time.sleep(1000)
PY
start here python3 "$WORK/shop.py"
sleep 1; measure here
