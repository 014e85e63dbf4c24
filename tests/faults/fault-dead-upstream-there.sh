# SPDX-License-Identifier: GPL-2.0-only
# True: At a proxy: the application behind it takes requests and never answers; clients give up after a second.
# Say: 10\.77\.0\.2:9000.*(no answer|does not answer)|(no answer|does not answer).*10\.77\.0\.2:9000
# Needs: nginx
. ./lib.sh || exit 1
pair
lines there 10.77.0.2 9000 <<'PY'
import time
def answer(peer):
    time.sleep(1000)
PY
cat >"$WORK/nginx.conf" <<END
daemon off; pid $WORK/pid; error_log $WORK/log; events {}
http { access_log off; client_body_temp_path $WORK; proxy_temp_path $WORK;
fastcgi_temp_path $WORK; uwsgi_temp_path $WORK; scgi_temp_path $WORK;
server { listen 10.77.0.1:8080; location / { proxy_pass http://10.77.0.2:9000; } } }
END
start here nginx -c "$WORK/nginx.conf"; listening here 8080
program client.py <<'PY'
import socket, threading, time
def ask():
    while True:
        time.sleep(0.2)
        with socket.create_connection(("10.77.0.1", 8080)) as proxy:
            proxy.settimeout(1)
            proxy.sendall(b"GET / HTTP/1.1\r\nHost: shop\r\n\r\n")
            try:
                proxy.recv(100)
            except TimeoutError:
                pass
for _ in range(4):
    threading.Thread(target=ask).start()
PY
start there python3 "$WORK/client.py"
sleep 2; measure here
