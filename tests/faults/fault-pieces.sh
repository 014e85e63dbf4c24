# SPDX-License-Identifier: GPL-2.0-only
# True: A server sends each answer in eight pieces, one in 150 ms.
# Say: 10.77.0.2:8000.*(pieces|last byte|rest)
. ./lib.sh || exit 1
pair
lines there 10.77.0.2 8000 <<'PY'
import time
def answer(peer):
    for piece in range(8):
        peer.sendall(b"." * 999 + b"\n")
        time.sleep(0.15)
PY
client here 10.77.0.2 8000 --size 8000
sleep 1; SECONDS_OF_ONE=8; measure here
