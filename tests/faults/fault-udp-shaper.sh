# SPDX-License-Identifier: GPL-2.0-only
# True: Datagrams of a camera wait in the queue of this host's own shaper of 3 Mbit/s, which they fill.
# Say: (packet scheduler|queue).*wan
. ./lib.sh || exit 1
pair
on here tc qdisc add dev wan root tbf rate 3mbit burst 16kb latency 400ms
program camera.py <<'PY'
import socket, time
camera = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
camera.connect(("10.77.0.2", 5004))
while True:
    for _ in range(12):
        try:
            camera.send(b"x" * 1200)
        except OSError:
            pass
    time.sleep(0.03)
PY
program screen.py <<'PY'
import socket
screen = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
screen.bind(("10.77.0.2", 5004))
while True:
    screen.recv(2000)
PY
start there python3 "$WORK/screen.py"; listening there 5004
start here python3 "$WORK/camera.py"
sleep 1; SECONDS_OF_ONE=8; measure here
