# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: health checks open connections and close them, browsers open some that they do not use, and a clock tells the time and closes.
# Say: ^$
. ./lib.sh || exit 1
host one
program services.py <<'PY'
import select, socket, threading, time
def serve(peer):
    while select.select([peer], [], [], 1.5)[0]:
        if not peer.recv(1000):
            break
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    peer.close()
def tell(peer):
    peer.sendall(time.ctime().encode() + b"\r\n")
    peer.close()
def listen(port, answer):
    listener = socket.create_server(("127.0.0.1", port), backlog=128)
    while True:
        threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()
threading.Thread(target=listen, args=(8000, serve), daemon=True).start()
listen(8013, tell)
PY
start one python3 "$WORK/services.py"; listening one 8000; listening one 8013
program clients.py <<'PY'
import socket, struct, threading, time
def to(port):
    return socket.create_connection(("127.0.0.1", port))
def ask(peer):
    peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
    peer.recv(1000)
def kept():
    peer = to(8000)
    while True:
        ask(peer)
        time.sleep(0.2)
def checks():
    while True:
        for port in (8000, 8013):
            to(port).close()
            gone = to(port)
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            gone.close()
        time.sleep(0.1)
def unused():
    while True:
        peer = to(8000)
        peer.recv(1)
        peer.close()
def clock():
    while True:
        peer = to(8013)
        peer.recv(100)
        peer.recv(1)
        peer.close()
        time.sleep(0.2)
for load in (kept, checks, unused, unused, clock):
    threading.Thread(target=load, daemon=True).start()
time.sleep(1000)
PY
start one python3 "$WORK/clients.py"
sleep 1; measure one
