# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a service tells the time and closes; a monitor connects to an SSH server, reads its greeting and closes; a service answers and resets each connection.
# Say: ^$
. ./lib.sh || exit 1
pair
program says.py <<'PY'
import socket, struct, threading, time
def serve(port, said):
    listener = socket.create_server(("10.77.0.2", port))
    while True:
        said(listener.accept()[0])
def tells_time(client):
    with client:
        client.sendall(time.ctime().encode() + b"\r\n")
def greets(client):
    with client:
        client.sendall(b"SSH-2.0-there\r\n")
        client.recv(100)
def answers_and_resets(client):
    with client:
        client.recv(100)
        client.sendall(b"ok\r\n")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
for port, said in (13, tells_time), (22, greets), (8000, answers_and_resets):
    threading.Thread(target=serve, args=(port, said)).start()
PY
start there python3 "$WORK/says.py"
for port in 13 22 8000; do listening there $port; done
program asks.py <<'PY'
import socket, sys, time
port, question = int(sys.argv[1]), sys.argv[2].encode()
while True:
    with socket.create_connection(("10.77.0.2", port)) as service:
        service.sendall(question)
        try:
            while service.recv(100) and port != 22:
                pass
        except ConnectionError:
            pass
    time.sleep(0.3)
PY
start here python3 "$WORK/asks.py" 13 ""
start here python3 "$WORK/asks.py" 22 ""
start here python3 "$WORK/asks.py" 8000 "GET"
sleep 1; SECONDS_OF_ONE=8; measure here
