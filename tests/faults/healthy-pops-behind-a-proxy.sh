# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: workers wait behind a proxy for jobs of a queue, and report each; others ask it little.
# Say: ^$
# Needs: redis-server haproxy
. ./lib.sh || exit 1
pair --delay 0.003
start there redis-server --bind 10.77.0.2 --save '' --protected-mode no
listening there 6379
program haproxy.cfg <<'CFG'
defaults
 mode tcp
 timeout client 60s
 timeout server 60s
 timeout connect 5s
listen all
 bind 127.0.0.1:6379
 server queue 10.77.0.2:6379
CFG
start here haproxy -db -f "$WORK/haproxy.cfg"; HAPROXY=$LAST; listening here 6379
program clients.py <<'PY'
import random, socket, threading, time
def connect():
    queue = socket.create_connection(("127.0.0.1", 6379))
    lines = queue.makefile("rb")
    def ask(*words):
        queue.sendall((" ".join(words) + "\r\n").encode())
        first = lines.readline()
        if first.startswith(b"*") and first != b"*-1\r\n":
            for _ in range(int(first[1:]) * 2):
                lines.readline()
        elif first.startswith(b"$") and first != b"$-1\r\n":
            lines.readline()
    return ask
def work():
    ask = connect()
    while True:
        ask("BLPOP", "jobs", "5")
        time.sleep(random.uniform(0.02, 0.2))
        ask("INCR", "done")
def push():
    ask = connect()
    while True:
        ask("RPUSH", "jobs", "one")
        time.sleep(random.uniform(0.1, 1))
def read():
    ask = connect()
    while True:
        ask("GET", "page")
        time.sleep(random.uniform(0.02, 0.1))
for part in [work] * 4 + [push] + [read] * 3:
    threading.Thread(target=part).start()
PY
start here python3 "$WORK/clients.py"; CLIENTS=$LAST
sleep 2; SECONDS_OF_ONE=8 measure here -p "$HAPROXY"; SECONDS_OF_ONE=8 measure here -p "$CLIENTS"
SECONDS_OF_ONE=8 measure there
