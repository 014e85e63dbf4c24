# SPDX-License-Identifier: GPL-2.0-only
# True: Memcached has as many connections as it may; it closes each new one at once, and serves the others.
# Say: 10.77.0.2:11211 were closed .*at once
# Needs: memcached setpriv
. ./lib.sh || exit 1
pair
start there setpriv --reuid 65534 --clear-groups memcached -l 10.77.0.2 -p 11211 -U 0 -c 16 -t 1
listening there 11211
program cache.py <<'PY'
import socket, threading, time
def get(held):
    try:
        cache = socket.create_connection(("10.77.0.2", 11211), timeout=2)
        cache.sendall(b"get name\r\n")
        answer = cache.recv(100)
        while held and answer == b"END\r\n":
            time.sleep(0.2)
            cache.sendall(b"get name\r\n")
            answer = cache.recv(100)
        cache.close()
    except OSError:
        pass
for _ in range(20):
    threading.Thread(target=get, args=(True,), daemon=True).start()
time.sleep(0.5)
while True:
    get(False)
    time.sleep(0.1)
PY
start here python3 "$WORK/cache.py"
sleep 2; measure "${WHERE:-here}"
