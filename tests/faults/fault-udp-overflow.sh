# SPDX-License-Identifier: GPL-2.0-only
# True: A collector of figures reads 100 datagrams a second, and gets 1000.
# Say: datagrams .*dropped
. ./lib.sh || exit 1
pair
program collect.py <<'PY'
import socket, time
figures = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
figures.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
figures.bind(("10.77.0.2", 8125))
while True:
    figures.recv(2000)
    time.sleep(0.01)
PY
start there python3 "$WORK/collect.py"; sleep 0.5
program send.py <<'PY'
import socket, time
figures = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    for _ in range(10):
        figures.sendto(b"requests:1|c" * 10, ("10.77.0.2", 8125))
    time.sleep(0.01)
PY
start here python3 "$WORK/send.py"
sleep 1; measure there
