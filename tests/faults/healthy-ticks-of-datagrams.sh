# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a game's server reads and sends at thirty ticks a second, and another at twenty; seven players send at ticks of their own.
# Say: ^$
. ./lib.sh || exit 1
pair --delay 0.02
program server.py <<'PY'
import socket, sys, time
port, rate = int(sys.argv[1]), int(sys.argv[2])
end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end.bind(("10.77.0.2", port))
end.setblocking(False)
players, tick = set(), time.monotonic()
while True:
    tick += 1 / rate
    time.sleep(max(0, tick - time.monotonic()))
    try:
        while True:
            players.add(end.recvfrom(2000)[1])
    except BlockingIOError:
        pass
    for player in players:
        end.sendto(b"state" * 40, player)
PY
program players.py <<'PY'
import socket, sys, threading, time
def play(place, port, rate):
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.connect(("10.77.0.2", port))
    def read():
        while True:
            end.recv(2000)
    threading.Thread(target=read).start()
    tick = time.monotonic() + place * 0.0137
    while True:
        tick += 1 / rate
        time.sleep(max(0, tick - time.monotonic()))
        end.send(b"input" * 5)
for place in range(6):
    threading.Thread(target=play, args=(place, 7777, 60)).start()
play(0, 7778, 20)
PY
start there python3 "$WORK/server.py" 7777 30; start there python3 "$WORK/server.py" 7778 20
listening there 7777; listening there 7778
start here python3 "$WORK/players.py"
sleep 1; SECONDS_OF_ONE=8 measure here; SECONDS_OF_ONE=8 measure there
