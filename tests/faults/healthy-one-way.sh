# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: logs go one way over TCP, figures over UDP; nobody answers, and nobody waits.
# Say: ^$
. ./lib.sh || exit 1
pair
program sink.py <<'PY'
import socket, threading
def logs():
    listener = socket.create_server(("10.77.0.2", 5140))
    while True:
        peer, _ = listener.accept()
        threading.Thread(target=drain, args=(peer,)).start()
def drain(peer):
    while peer.recv(65536):
        pass
threading.Thread(target=logs).start()
figures = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
figures.bind(("10.77.0.2", 8125))
while True:
    figures.recv(2000)
PY
start there python3 "$WORK/sink.py"; listening there 5140
program source.py <<'PY'
import socket, time
logs = socket.create_connection(("10.77.0.2", 5140))
figures = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    logs.sendall(b"line " * 40 + b"\n")
    figures.sendto(b"requests:1|c", ("10.77.0.2", 8125))
    time.sleep(0.11)
PY
start here python3 "$WORK/source.py"
sleep 1; measure here
