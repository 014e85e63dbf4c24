# SPDX-License-Identifier: GPL-2.0-only
# True: A server writes 2 KB of log for each request to a pipe, whose reader takes 4 KB in 200 ms.
# Say: python3 at :8000 takes .* to answer requests.*full pipe, which python3 .PID [0-9]+. reads
. ./lib.sh || exit 1
pair
program shipper.py <<'PY'
import os, time
while os.read(0, 4096):
    time.sleep(0.2)
PY
cat - "$HERE/lines.py" <<'PY' | program web.py
import os
def answer(peer):
    os.write(1, b"x" * 2047 + b"\n")
    peer.sendall(b"ok\n")
PY
mkfifo "$WORK/log.fifo"
ip netns exec there sh -c "python3 $WORK/shipper.py <$WORK/log.fifo & exec python3 $WORK/web.py 10.77.0.2 8000 >$WORK/log.fifo" &
STARTED+=($!); listening there 8000
client here 10.77.0.2 8000 --size 3 --pause 0.05
sleep 8; measure there
