# SPDX-License-Identifier: GPL-2.0-only
# True: A server logs a datagram for each request to a Unix socket, whose reader takes one in 60 ms.
# Say: python3 at :8000 takes .* to answer requests.*python3 at the Unix socket .*log\.socket
. ./lib.sh || exit 1
pair
program syslog.py <<'PY'
import socket, sys, time
log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
log.bind(sys.argv[1])
while log.recv(4096):
    time.sleep(0.06)
PY
start there python3 "$WORK/syslog.py" "$WORK/log.socket"
until [ -S "$WORK/log.socket" ]; do sleep 0.05; done
{ echo "PATH = '$WORK/log.socket'"; cat - "$HERE/lines.py"; } <<'PY' | program web.py
import socket
def answer(peer):
    log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    log.connect(PATH)
    log.send(b"<30>web: a request")
    log.close()
    peer.sendall(b"ok\n")
PY
start there python3 "$WORK/web.py" 10.77.0.2 8000; listening there 8000
client here 10.77.0.2 8000 --size 3 --pause 0.05
sleep 4; measure there
