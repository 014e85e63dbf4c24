# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a worker waits for jobs of a Redis that other clients keep busy.
# Say: ^$
# Needs: redis-server redis-benchmark
. ./lib.sh || exit 1
pair
host beside
ip -n there link add more type veth peer name wan netns beside
ip -n there addr add 10.78.0.2/24 dev more; ip -n beside addr add 10.78.0.1/24 dev wan
ip -n there link set more up; ip -n beside link set wan up
start there redis-server --save '' --appendonly no --protected-mode no --bind 10.77.0.2 10.78.0.2
listening there 6379
start beside redis-benchmark -q -h 10.78.0.2 -n 100000000 -c 20 -t get
program work.py <<'PY'
import socket, time
server = socket.create_connection(("10.77.0.2", 6379))
while True:
    server.sendall(b"*3\r\n$5\r\nBLPOP\r\n$4\r\njobs\r\n$1\r\n0\r\n")
    server.recv(1000)
    time.sleep(0.01)
PY
program jobs.py <<'PY'
import random, socket, time
server = socket.create_connection(("10.78.0.2", 6379))
while True:
    time.sleep(random.uniform(0.2, 0.8))
    server.sendall(b"*3\r\n$5\r\nRPUSH\r\n$4\r\njobs\r\n$1\r\nx\r\n")
    server.recv(1000)
PY
start here python3 "$WORK/work.py"
start beside python3 "$WORK/jobs.py"
sleep 1; measure here
