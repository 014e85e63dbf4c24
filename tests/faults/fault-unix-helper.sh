# SPDX-License-Identifier: GPL-2.0-only
# True: nginx asks a helper behind a Unix socket whether each request may pass; the helper sleeps for 400 ms.
# Say: nginx at :8080.*Unix socket.*helper\.sock
# Needs: nginx curl
. ./lib.sh || exit 1
pair
program helper.py <<'PY'
import socket, sys, threading, time
def serve(peer):
    peer.recv(4096)
    time.sleep(0.4)
    peer.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nok\n")
    peer.close()
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(64)
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
PY
start there python3 "$WORK/helper.py" "$WORK/helper.sock"
mkdir "$WORK/pages"; echo page >"$WORK/pages/index.html"
program nginx.conf <<NGINX
daemon off; user root; worker_processes 1; pid $WORK/pid; error_log $WORK/log;
events {}
http {
	access_log off;
	server {
		listen 10.77.0.2:8080;
		location = /auth { internal; proxy_pass http://unix:$WORK/helper.sock; }
		location / { auth_request /auth; root $WORK/pages; }
	}
}
NGINX
until [ -S "$WORK/helper.sock" ]; do sleep 0.05; done
start there nginx -c "$WORK/nginx.conf"; listening there 8080
program client.sh <<'SH'
while :; do curl -s http://10.77.0.2:8080/index.html -o /dev/null; sleep 0.2; done
SH
start here bash "$WORK/client.sh"
sleep 1; SECONDS_OF_ONE=6; measure there
