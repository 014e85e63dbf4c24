# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a game's server reads what came over its connections and sends at twenty ticks a second; five players send as often.
# Say: ^$
. ./lib.sh || exit 1
pair --delay 0.02
program server.py <<'PY'
import socket, time
listener = socket.create_server(("10.77.0.2", 7777))
listener.setblocking(False)
players, tick = [], time.monotonic()
def take(call):
    try:
        return call()
    except BlockingIOError:
        return None
while True:
    tick += 0.05
    time.sleep(max(0, tick - time.monotonic()))
    while came := take(listener.accept):
        came[0].setblocking(False)
        came[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        players.append(came[0])
    for player in players:
        while take(lambda: player.recv(2000)):
            pass
        player.send(b"state" * 40)
PY
program players.py <<'PY'
import socket, threading, time
def play(place):
    end = socket.create_connection(("10.77.0.2", 7777))
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    def read():
        while end.recv(2000):
            pass
    threading.Thread(target=read).start()
    tick = time.monotonic() + place * 0.0137
    while True:
        tick += 0.05
        time.sleep(max(0, tick - time.monotonic()))
        end.send(b"input" * 5)
for place in range(5):
    threading.Thread(target=play, args=(place,)).start()
PY
start there python3 "$WORK/server.py"; listening there 7777
start here python3 "$WORK/players.py"
sleep 1; SECONDS_OF_ONE=8 measure here; SECONDS_OF_ONE=8 measure there
