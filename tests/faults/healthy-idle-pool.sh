# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a pool of 20 connections, most of them idle; each is tested by a ping now and then.
# Say: ^$
# Needs: redis-server
. ./lib.sh || exit 1
pair
start there redis-server --save '' --appendonly no --protected-mode no --bind 10.77.0.2
listening there 6379
program pool.py <<'PY'
import random, socket, time
pool = [socket.create_connection(("10.77.0.2", 6379)) for _ in range(20)]
while True:
    server = random.choice(pool)
    server.sendall(b"PING\r\n")
    server.recv(100)
    time.sleep(0.1)
PY
start here python3 "$WORK/pool.py"
sleep 1; measure here
