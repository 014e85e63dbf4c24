# SPDX-License-Identifier: GPL-2.0-only
# True: Each request opens a connection with TLS, on a path of 150 ms: two round trips in three are handshakes.
# Say: 10\.77\.0\.2:443.*(keep-alive|handshake)
# Needs: openssl curl
. ./lib.sh || exit 1
pair --delay 0.075
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$WORK/key" -out "$WORK/pem" -days 2 -subj /CN=shop 2>/dev/null
program shop.py <<'PY'
import socket, ssl, sys, threading
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1] + "/pem", sys.argv[1] + "/key")
def serve(client):
    try:
        with context.wrap_socket(client, server_side=True) as client:
            client.recv(1000)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
    except OSError:
        pass
listener = socket.create_server(("10.77.0.2", 443))
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
PY
start there python3 "$WORK/shop.py" "$WORK"; listening there 443
program client.sh <<'SH'
while :; do curl -sk https://10.77.0.2/ -o /dev/null; sleep 0.1; done
SH
start here bash "$WORK/client.sh"
sleep 1; SECONDS_OF_ONE=8; measure here
