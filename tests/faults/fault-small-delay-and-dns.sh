# SPDX-License-Identifier: GPL-2.0-only
# True: Two faults: a service takes 40 ms for each answer, and the name server 300 ms.
# Say: 10.77.0.2:(53|8000)
# Also: (10.77.0.2:53.*10.77.0.2:8000|10.77.0.2:8000.*10.77.0.2:53)
. ./lib.sh || exit 1
pair
program names.py <<'PY'
import socket, time
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("10.77.0.2", 53))
while True:
    question, client = server.recvfrom(600)
    time.sleep(0.3)
    server.sendto(question[:2] + b"\x81\x80" + question[4:], client)
PY
start there python3 "$WORK/names.py"; listening there 53
server there 10.77.0.2 8000 --delay 0.04
program ask.py <<'PY'
import socket, time
QUESTION = b"\0\1\1\0\0\1\0\0\0\0\0\0\x03api\x04test\0\0\1\0\1"
while True:
    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asking.connect(("10.77.0.2", 53))
    asking.send(QUESTION)
    asking.recv(600)
    asking.close()
    with socket.create_connection(("10.77.0.2", 8000)) as server:
        for _ in range(3):
            server.sendall(b"\n")
            server.recv(1000)
    time.sleep(0.2)
PY
start here python3 "$WORK/ask.py"
sleep 1; SECONDS_OF_ONE=8; measure here
