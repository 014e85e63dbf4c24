# SPDX-License-Identifier: GPL-2.0-only
# True: A client does not trust the certificate of a service, and ends each handshake of TLS by an alert.
# Say: connections (of (python3|curl) to 10\.77\.0\.2:443|at python3 at :443) ended in the TLS handshake.*certificate
# Needs: openssl
. ./lib.sh || exit 1
pair
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
        client.close()
listener = socket.create_server(("10.77.0.2", 443))
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
PY
start there python3 "$WORK/shop.py" "$WORK"; listening there 443
program client.py <<'PY'
import socket, ssl, time
context = ssl.create_default_context()
while True:
    server = socket.create_connection(("10.77.0.2", 443))
    try:
        with context.wrap_socket(server, server_hostname="shop") as server:
            server.sendall(b"GET / HTTP/1.0\r\n\r\n")
            server.recv(1000)
    except OSError:
        server.close()
    time.sleep(0.1)
PY
start here python3 "$WORK/client.py"
sleep 1; measure "${AT:-here}"
