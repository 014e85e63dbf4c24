# SPDX-License-Identifier: GPL-2.0-only
# True: An upload of this host fills the deep queue of a path of 4 Mbit/s; small questions to the same host wait in it.
# Say: (10\.77\.0\.2:8000.*a queue on the path|a queue on the path.*10\.77\.0\.2:8000)
. ./lib.sh || exit 1
pair --delay 0.014 --rate 500000
server there 10.77.0.2 8000
program sink.py <<'PY'
import socket
listener = socket.create_server(("10.77.0.2", 9000))
while True:
    client, _ = listener.accept()
    while client.recv(65536):
        pass
PY
start there python3 "$WORK/sink.py"; listening there 9000
program upload.py <<'PY'
import socket
backup = socket.create_connection(("10.77.0.2", 9000))
while True:
    backup.sendall(b"." * 65536)
PY
start here python3 "$WORK/upload.py"
client here 10.77.0.2 8000 --connections 2 --pause 0.1
sleep 2; SECONDS_OF_ONE=8; measure here
