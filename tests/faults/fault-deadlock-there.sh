# SPDX-License-Identifier: GPL-2.0-only
# True: At the server: half of its requests wait for a lock that nobody gives back; their clients give up after a second.
# Say: :8000 (were read and not answered until their clients gave up after 1\.[0-2]|does not answer requests).*futex
. ./lib.sh || exit 1
pair
lines there 10.77.0.2 8000 <<'PY'
import itertools, threading
held, calls = threading.Lock(), itertools.count()
held.acquire()
def answer(peer):
    if next(calls) % 2:
        held.acquire()
    peer.sendall(b"done\n")
PY
client here 10.77.0.2 8000 --timeout 1
sleep 2; measure there
