# SPDX-License-Identifier: GPL-2.0-only
# True: Answers stop half-way: the server sends 20 KB of 40, and the rest two seconds later, or never.
# Say: 10.77.0.2:8000.*(rest|half|stops|last byte)
. ./lib.sh || exit 1
pair
program web.py <<'PY'
import itertools, socket, threading, time
def serve(peer, number):
    for line in peer.makefile("rb"):
        peer.sendall(b"." * 20000)
        time.sleep(100 if number % 2 else 2)
        peer.sendall(b"." * 19999 + b"\n")
listener = socket.create_server(("10.77.0.2", 8000), backlog=128)
for number in itertools.count():
    peer = listener.accept()[0]
    threading.Thread(target=serve, args=(peer, number), daemon=True).start()
PY
start there python3 "$WORK/web.py"; listening there 8000
client here 10.77.0.2 8000 --size 40000 --timeout 3
sleep 1; SECONDS_OF_ONE=9; measure here
