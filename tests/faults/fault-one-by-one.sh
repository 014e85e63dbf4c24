# SPDX-License-Identifier: GPL-2.0-only
# True: A page asks a fast service 30 questions, one after the other, on a path of 40 ms: each page takes 1.2 s.
# Say: waits 1\.[2-4]. s for each series of questions to 10.77.0.2:6379.*each takes a round trip: 30 questions
. ./lib.sh || exit 1
pair --delay 0.02
server there 10.77.0.2 6379 --size 20
program shop.py <<'PY'
import socket, time
service = socket.create_connection(("10.77.0.2", 6379))
service.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
answers = service.makefile("rb")
while True:
    begin = time.monotonic()
    for _ in range(30):
        service.sendall(b"GET\n")
        answers.readline()
    print("page", time.monotonic() - begin, flush=True)
    time.sleep(0.3)
PY
start here python3 "$WORK/shop.py"
sleep 1; SECONDS_OF_ONE=8; measure here
