# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong at Redis: all of its clients wait for jobs, and no job comes; some stop waiting and come again.
# Say: ^$
# Needs: redis-server redis-cli
. ./lib.sh || exit 1
pair
start there redis-server --port 6379 --bind 10.77.0.2 --protected-mode no --save ""
listening there 6379
for _ in 1 2 3 4; do start here redis-cli -h 10.77.0.2 blpop jobs 100; done
program impatient.py <<'PY'
import socket, time
while True:
    with socket.create_connection(("10.77.0.2", 6379)) as queue:
        queue.sendall(b"*3\r\n$5\r\nBLPOP\r\n$4\r\njobs\r\n$3\r\n100\r\n")
        time.sleep(1.5)
PY
start here python3 "$WORK/impatient.py"
sleep 2; measure there
