# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a NATS broker here passes news of a publisher to three subscribers, which ping it now and then.
# Say: ^$
. ./lib.sh || exit 1
# Needs: nats-server
pair
start here nats-server -a 10.77.0.1 -p 4222; listening here 4222
program subscribe.py <<'PY'
import socket, threading, time
def connect():
    broker = socket.create_connection(("10.77.0.1", 4222))
    broker.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    lines = broker.makefile("rb")
    lines.readline()
    broker.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
    lines.readline()
    return broker, lines
def subscribe():
    broker, lines = connect()
    broker.sendall(b"SUB news 1\r\n")
    for line in lines:
        if line.startswith(b"PING"):
            broker.sendall(b"PONG\r\n")
def publish(pause):
    broker, lines = connect()
    while True:
        broker.sendall(b"PUB news 5\r\nhello\r\n")
        time.sleep(pause)
for _ in range(3):
    threading.Thread(target=subscribe).start()
for pause in [0.25, 0.7]:
    threading.Thread(target=publish, args=(pause,)).start()
PY
start there python3 "$WORK/subscribe.py"
sleep 2; SECONDS_OF_ONE=8; measure here
