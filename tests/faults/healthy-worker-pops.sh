# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: workers take jobs from Redis (BLPOP, 2 s at most), work 0.15 s on each, and note the result.
# Say: ^$
# Needs: redis-server redis-cli
. ./lib.sh || exit 1
host one
start one redis-server --save '' --appendonly no --bind 127.0.0.1; listening one 6379
program worker.py <<'PY'
import socket, threading, time
def work():
    redis = socket.create_connection(("127.0.0.1", 6379))
    lines = redis.makefile("rb")
    def ask(*words):
        redis.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        def reply():
            line = lines.readline()
            if line[:1] == b"*":
                return [reply() for _ in range(int(line[1:]))]
            if line[:1] == b"$" and int(line[1:]) >= 0:
                return lines.read(int(line[1:]) + 2)
            return line
        return reply()
    while True:
        if ask(b"BLPOP", b"jobs", b"2"):
            time.sleep(0.15)
            ask(b"SET", b"done", b"1")
            ask(b"INCR", b"n")
for _ in range(3):
    threading.Thread(target=work).start()
PY
start one python3 "$WORK/worker.py"
start one bash -c 'redis-cli -r 100 -i 0.35 rpush jobs x'
sleep 1; SECONDS_OF_ONE=8; measure one
