# SPDX-License-Identifier: GPL-2.0-only
# True: A service looks up each client at a name server that never answers, before it greets.
# Say: ^ diagnosis: 10.77.0.1:53 \(DNS\) (does not answer|.*no answer)|got no answer|asked again
. ./lib.sh || exit 1
pair
start here python3 -c '
import socket, time
silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("10.77.0.1", 53))
time.sleep(1000)
'
listening here 53
program greeter.py <<'PY'
import socket, threading
QUESTION = bytes.fromhex("00070100000100000000000001310137013737023130") + b"\x07in-addr\x04arpa\0\0\x0c\0\1"
def greet(client):
    resolver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    resolver.connect(("10.77.0.1", 53))
    resolver.settimeout(1)
    for _ in range(3):
        resolver.send(QUESTION)
        try:
            resolver.recv(500)
            break
        except TimeoutError:
            pass
    client.sendall(b"220 ready\r\n")
    client.recv(100)
    client.close()
listener = socket.create_server(("10.77.0.2", 25))
while True:
    threading.Thread(target=greet, args=listener.accept()[:1]).start()
PY
start there python3 "$WORK/greeter.py"; listening there 25
program sender.py <<'PY'
import socket, threading, time
def send():
    server = socket.create_connection(("10.77.0.2", 25))
    server.recv(100)
    server.sendall(b"QUIT\r\n")
    server.close()
while True:
    threading.Thread(target=send).start()
    time.sleep(0.8)
PY
start here python3 "$WORK/sender.py"
sleep 4; SECONDS_OF_ONE=8; measure there
