# SPDX-License-Identifier: GPL-2.0-only
# True: A thread of the server holds a lock for 300 ms at a time; each request takes the same lock.
# Say: (python3|:8000).*sleep: a lock
. ./lib.sh || exit 1
pair
lines here 10.77.0.1 8000 <<'PY'
import threading, time
held = threading.Lock()
def hold():
    while True:
        with held:
            time.sleep(0.3)
        time.sleep(0.1)
def answer(peer):
    with held:
        pass
    peer.sendall(b"ok\n")
threading.Thread(target=hold, daemon=True).start()
PY
client there 10.77.0.1 8000 --size 3
sleep 1; measure here
