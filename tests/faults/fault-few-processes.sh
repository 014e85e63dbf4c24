# SPDX-License-Identifier: GPL-2.0-only
# True: Two processes of one task each answer at a Unix socket, 100 ms for each request; nginx has eight requests at once.
# Say: work.sock
# Also: 2 processes of one task each answer, and up to [0-9]+ questions wait at once: too few workers
# Needs: nginx
. ./lib.sh || exit 1
pair
program work.py <<'PY'
import os, socket, sys, time
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(64)
os.fork()
while True:
    peer, _ = listener.accept()
    peer.recv(4096)
    time.sleep(0.1)
    peer.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nok\n")
    peer.close()
PY
start there python3 "$WORK/work.py" "$WORK/work.sock"
until [ -S "$WORK/work.sock" ]; do sleep 0.05; done
chmod 777 "$WORK" "$WORK/work.sock"
cat >"$WORK/nginx.conf" <<CFG
worker_processes 1; pid $WORK/pid; error_log $WORK/error; daemon off;
events {}
http { access_log off; server { listen 10.77.0.2:8080;
location / { proxy_pass http://unix:$WORK/work.sock; } } }
CFG
start there nginx -c "$WORK/nginx.conf"; listening there 8080
program ask.py <<'PY'
import http.client, threading, time
def ask():
    while True:
        server = http.client.HTTPConnection("10.77.0.2", 8080)
        server.request("GET", "/")
        server.getresponse().read()
        server.close()
        time.sleep(0.02)
for _ in range(8):
    threading.Thread(target=ask).start()
PY
start here python3 "$WORK/ask.py"
sleep 2; measure there --comm nginx
