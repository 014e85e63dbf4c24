# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: workers of a queue wait for jobs (BLPOP), work a while, and tell Redis of it on other connections.
# Say: ^$
# Needs: redis-server
. ./lib.sh || exit 1
pair
start here redis-server --save '' --appendonly no --protected-mode no --bind 10.77.0.1 --dir "$WORK"
listening here 6379
program work.py <<'PY'
import random, socket, threading, time
def connect():
    redis = socket.create_connection(("10.77.0.1", 6379))
    return redis, redis.makefile("rb")
def ask(redis, lines, words):
    redis.sendall(b"".join([b"*%d\r\n" % len(words)] + [b"$%d\r\n%s\r\n" % (len(w), w) for w in words]))
    head = lines.readline()
    if head.startswith(b"*") and head != b"*-1\r\n":
        for _ in range(2 * int(head[1:])):
            lines.readline()
def work():
    jobs, told = connect(), connect()
    while True:
        ask(*jobs, [b"BLPOP", b"jobs", b"2"])
        time.sleep(0.04)
        ask(*told, [b"INCR", b"done"])
def bring():
    queue = connect()
    while True:
        ask(*queue, [b"RPUSH", b"jobs", b"x"])
        time.sleep(random.expovariate(3))
for _ in range(3):
    threading.Thread(target=work).start()
threading.Thread(target=bring).start()
PY
start there python3 "$WORK/work.py"
sleep 2; SECONDS_OF_ONE=8; measure "${AT:-here}"
