# SPDX-License-Identifier: GPL-2.0-only
# True: A name server answers questions for IPv4 addresses at once, and those for IPv6 ones never; each look-up waits two seconds.
# Say: 10.77.0.2:53.*(no answer|does not answer)
. ./lib.sh || exit 1
pair
program names.py <<'PY'
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("10.77.0.2", 53))
while True:
    question, client = server.recvfrom(600)
    if question[-3] == 1:
        server.sendto(question[:2] + b"\x81\x80" + question[4:], client)
PY
start there python3 "$WORK/names.py"; listening there 53
program ask.py <<'PY'
import socket, time
NAME = b"\x03api\x04test\0"
def question(number, kind):
    return number.to_bytes(2, "big") + b"\1\0\0\1\0\0\0\0\0\0" + NAME + b"\0" + bytes([kind]) + b"\0\1"
while True:
    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asking.connect(("10.77.0.2", 53))
    asking.settimeout(2)
    asking.send(question(1, 1))
    asking.send(question(2, 28))
    try:
        while True:
            asking.recv(600)
    except TimeoutError:
        asking.close()
    time.sleep(0.3)
PY
start here python3 "$WORK/ask.py"
sleep 1; SECONDS_OF_ONE=8; measure here
