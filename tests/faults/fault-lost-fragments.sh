# SPDX-License-Identifier: GPL-2.0-only
# True: A path drops all fragments of a datagram but the first: large answers of a name server do not arrive.
# Say: 10\.77\.0\.2:53.*fragments
. ./lib.sh || exit 1
pair --whole
program names.py <<'PY'
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("10.77.0.2", 53))
while True:
    question, client = server.recvfrom(600)
    size = 2500 if b"keys" in question else 60
    server.sendto(question[:2] + b"\x81\x80" + question[4:] + b"." * size, client)
PY
start there python3 "$WORK/names.py"; listening there 53
program ask.py <<'PY'
import socket, time
def look_up(name):
    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asking.connect(("10.77.0.2", 53))
    asking.settimeout(1)
    for _ in range(2):
        asking.send(b"\0\1\1\0\0\1\0\0\0\0\0\0" + name + b"\0\0\1\0\1")
        try:
            asking.recv(4000)
            break
        except TimeoutError:
            pass
    asking.close()
while True:
    for name in (b"\4page\4test", b"\4keys\4test"):
        look_up(name)
        time.sleep(0.1)
PY
start here python3 "$WORK/ask.py"
sleep 1; SECONDS_OF_ONE=8; measure here
