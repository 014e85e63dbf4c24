# SPDX-License-Identifier: GPL-2.0-only
# True: A service answers a command at once that it has asked too often; the command waits by itself, twice as long each time.
# Say: waits by itself between equal questions to 10\.77\.0\.2:8000.*(limit|429)
# Needs: nft
. ./lib.sh || exit 1
far
server there "" 8000 --size 120
program job.py <<'PY'
import socket, time
service = socket.create_connection(("10.77.0.2", 8000))
for pause in (0.4, 0.8, 1.6, 3.2, 0):
    service.sendall(b"GET /job HTTP/1.1 Host: service\n")
    rest = 120
    while rest:
        rest -= len(service.recv(rest))
    time.sleep(pause)
PY
ended here python3 "$WORK/job.py"
