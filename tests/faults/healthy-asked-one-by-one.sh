# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: on a path of 40 ms a consumer fetches without a pause, what is there at once, and a mailer has dialogues of six questions.
# Say: ^$
. ./lib.sh || exit 1
pair --delay 0.02
server there 10.77.0.2 9092 --size 20
server there 10.77.0.2 2525 --size 20
program asks.py <<'PY'
import socket, sys, time
port, questions, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
service = socket.create_connection(("10.77.0.2", port))
service.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
answers = service.makefile("rb")
while True:
    for _ in range(questions):
        service.sendall(b"NEXT\n")
        answers.readline()
    time.sleep(pause)
PY
start here python3 "$WORK/asks.py" 9092 20 0
start here python3 "$WORK/asks.py" 2525 6 0.15
sleep 1; SECONDS_OF_ONE=8; measure here
