# SPDX-License-Identifier: GPL-2.0-only
# True: An SSH server has as many handshakes as it may have: it says so to each further client, and closes, without a look at what that has sent.
# Say: connections of python3 to 10.77.0.2:22 were closed by the peer at once.*as many connections as it may
. ./lib.sh || exit 1
pair --delay 0.001
program sshd.py <<'PY'
import socket
listener = socket.create_server(("10.77.0.2", 22))
while True:
    with listener.accept()[0] as client:
        client.sendall(b"Exceeded MaxStartups\r\n")
PY
start there python3 "$WORK/sshd.py"; listening there 22
program login.py <<'PY'
import socket, time
while True:
    with socket.create_connection(("10.77.0.2", 22)) as service:
        service.sendall(b"SSH-2.0-login_1.0\r\n")
        try:
            while service.recv(100):
                pass
        except ConnectionError:
            pass
    time.sleep(0.4)
PY
start here python3 "$WORK/login.py"
sleep 1; measure here
