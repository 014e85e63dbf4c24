# SPDX-License-Identifier: GPL-2.0-only
# True: A mail server greets each client 1.2 s late; its answers then come at once.
# Say: 10.77.0.2:25 (greets|takes 1\.2)
. ./lib.sh || exit 1
pair
program mail.py <<'PY'
import socket, threading, time
def serve(peer):
    time.sleep(1.2)
    peer.sendall(b"220 ready\r\n")
    for line in peer.makefile("rb"):
        peer.sendall(b"250 ok\r\n")
        if line.startswith(b"QUIT"):
            break
    peer.close()
listener = socket.create_server(("10.77.0.2", 25), backlog=128)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
PY
start there python3 "$WORK/mail.py"; listening there 25
program send.py <<'PY'
import socket, time
while True:
    mail = socket.create_connection(("10.77.0.2", 25))
    lines = mail.makefile("rb")
    lines.readline()
    for line in [b"HELO a\r\n", b"MAIL FROM:<a@b>\r\n", b"QUIT\r\n"]:
        mail.sendall(line)
        lines.readline()
    mail.close()
    time.sleep(0.2)
PY
start here python3 "$WORK/send.py"
sleep 1; SECONDS_OF_ONE=8; measure here
