# SPDX-License-Identifier: GPL-2.0-only
# True: A server does not know Expect: 100-continue; curl waits a second for the go-ahead of each upload, then sends on.
# Say: curl pauses for 1\.0. s .*10\.77\.0\.2:8000.*100-continue
# Needs: curl
. ./lib.sh || exit 1
pair
program server.py <<'PY'
import socket, threading
def serve(peer):
    request = peer.makefile("rb")
    length = 0
    for line in iter(request.readline, b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    request.read(length)
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
    peer.close()
listener = socket.create_server(("10.77.0.2", 8000), backlog=64)
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
PY
start there python3 "$WORK/server.py"; listening there 8000
head -c 5000 /dev/zero >"$WORK/body"
program upload.sh <<'SH'
while sleep 0.2; do
	curl -s -o /dev/null -H 'Expect: 100-continue' --data-binary "@$1" http://10.77.0.2:8000/
done
SH
start here bash "$WORK/upload.sh" "$WORK/body"
start here bash "$WORK/upload.sh" "$WORK/body"
sleep 1; SECONDS_OF_ONE=8; measure here
