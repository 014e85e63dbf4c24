# SPDX-License-Identifier: GPL-2.0-only
# True: A client does not trust the certificate of a service, and ends each handshake of TLS by an alert.
# Say: connections (of (python3|curl) to 10\.77\.0\.2:443|at python3 at :443) ended in the TLS handshake.*certificate
# Needs: openssl
. ./lib.sh || exit 1
pair
tls there 10.77.0.2 443
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
