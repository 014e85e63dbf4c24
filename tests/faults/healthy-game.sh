# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a game's server and its players send datagrams at a rate of their own.
# Say: ^$
. ./lib.sh || exit 1
pair
program game.py <<'PY'
import socket, sys, threading, time
own, other, pause = ("10.77.0." + sys.argv[1], 27015), ("10.77.0." + sys.argv[2], 27015), float(sys.argv[3])
end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end.bind(own)
def receive():
    while True:
        end.recv(2000)
threading.Thread(target=receive).start()
while True:
    end.sendto(b"x" * 80, other)
    time.sleep(pause)
PY
start there python3 "$WORK/game.py" 2 1 0.05
start here python3 "$WORK/game.py" 1 2 0.016
sleep 1; measure here
