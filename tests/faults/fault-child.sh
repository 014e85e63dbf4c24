# SPDX-License-Identifier: GPL-2.0-only
# True: Each request runs a child process for 150 ms.
# Say: (python3|:8000).*child process
. ./lib.sh || exit 1
pair
lines here 10.77.0.1 8000 <<'PY'
import subprocess
def answer(peer):
    subprocess.run(["sleep", "0.15"])
    peer.sendall(b"ok\n")
PY
client there 10.77.0.1 8000 --size 3
sleep 1; measure here
