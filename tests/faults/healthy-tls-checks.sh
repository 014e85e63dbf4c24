# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: checks open a TLS connection each, and end it as soon as the handshake is over, or after the service's part of it.
# Say: ^$
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
    except OSError:
        client.close()
listener = socket.create_server(("10.77.0.2", 443))
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
PY
start there python3 "$WORK/shop.py" "$WORK"; listening there 443
program check.py <<'PY'
import socket, ssl, time
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
versions = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
def hello():
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(ours, theirs).do_handshake()
    except ssl.SSLWantReadError:
        return theirs.read()
turn = 0
while True:
    turn += 1
    context.maximum_version = versions[turn % 2]
    server = socket.create_connection(("10.77.0.2", 443))
    if turn % 3:
        server = context.wrap_socket(server)
        if turn % 3 == 1:
            try:
                server.unwrap()
            except OSError:
                pass
    else:
        server.sendall(hello())
        server.recv(10000)
    server.close()
    time.sleep(0.05)
PY
start here python3 "$WORK/check.py"
sleep 1; measure "${AT:-here}"
