# SPDX-License-Identifier: GPL-2.0-only
# True: A script keeps Redis busy for 150 ms, twice a second; other clients wait for that.
# Say: redis-server at :6379 (reads|takes)
# Needs: redis-server redis-cli
. ./lib.sh || exit 1
pair
start there redis-server --save '' --appendonly no --protected-mode no --bind 10.77.0.2
listening there 6379
program clients.py <<'PY'
import socket, threading, time
def ask(command, pause):
    server = socket.create_connection(("10.77.0.2", 6379))
    while True:
        server.sendall(command)
        server.recv(1000)
        time.sleep(pause)
script = b"local t = redis.call('time'); local e = t[1] * 1000000 + t[2] + 150000; repeat t = redis.call('time') until t[1] * 1000000 + t[2] > e; return 1"
slow = b"*3\r\n$4\r\nEVAL\r\n$%d\r\n%s\r\n$1\r\n0\r\n" % (len(script), script)
threading.Thread(target=ask, args=(slow, 0.35)).start()
for _ in range(5):
    threading.Thread(target=ask, args=(b"PING\r\n", 0.06)).start()
PY
start here python3 "$WORK/clients.py"
sleep 1; measure there
