# SPDX-License-Identifier: GPL-2.0-only
# True: Clients of Redis wait until a replica has what they wrote (WAIT), and the replica is stopped.
# Say: (redis-server at :6379|10\.77\.0\.2:6379) .*redis-server .PID [0-9]+. at 10\.77\.0\.1:[0-9]+.*stopped
# Needs: redis-server
. ./lib.sh || exit 1
pair
start there redis-server --bind 10.77.0.2 --protected-mode no --save '' --dir "$WORK"
listening there 6379
start here redis-server --bind 10.77.0.1 --port 6380 --save '' --dir "$WORK" \
	--dbfilename replica.rdb --replicaof 10.77.0.2 6379
REPLICA=$LAST
listening here 6380; sleep 2
program ask.py <<'PY'
import socket, time
redis = socket.create_connection(("10.77.0.2", 6379))
answers = redis.makefile("rb")
while True:
    for command in (b"SET order 1\r\n", b"WAIT 1 1500\r\n"):
        redis.sendall(command)
        answers.readline()
    time.sleep(0.1)
PY
start here python3 "$WORK/ask.py"; start here python3 "$WORK/ask.py"
sleep 1; kill -STOP "$REPLICA"
sleep 1; SECONDS_OF_ONE=8; measure there
