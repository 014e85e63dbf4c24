# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: checks open a TLS connection each, and end it as soon as the handshake is over, or after the service's part of it.
# Say: ^$
# Needs: openssl
. ./lib.sh || exit 1
pair
tls there 10.77.0.2 443
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
