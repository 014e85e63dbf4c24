# SPDX-License-Identifier: GPL-2.0-only
# True: A service asks its database 40 short questions of 6 ms, one after the other, for each request.
# Say: 10\.77\.0\.2:8000.*questions
. ./lib.sh || exit 1
pair --delay 0.003
server there 10.77.0.2 8000
program shop.py <<'PY'
import socket
rows = socket.create_connection(("10.77.0.2", 8000))
rows.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
answers = rows.makefile("rb")
listener = socket.create_server(("10.77.0.1", 8080))
while True:
    client, _ = listener.accept()
    client.recv(100)
    for row in range(40):
        rows.sendall(b"?\n")
        answers.readline()
    client.sendall(b"page\n")
    client.close()
PY
start here python3 "$WORK/shop.py"; listening here 8080
client there 10.77.0.1 8080 --connections 1 --new --pause 0.2 --size 5
sleep 1; measure here
