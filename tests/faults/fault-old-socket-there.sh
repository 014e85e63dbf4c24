# SPDX-License-Identifier: GPL-2.0-only
# True: A router sends the questions of an old UDP socket to a name server that is gone; those of new sockets are answered.
# Say: requests of python3 to 10\.77\.0\.2:53.*one socket .local port 4444.
# Needs: nft
. ./lib.sh || exit 1
far
start there python3 "$HERE/datagrams.py" serve 10.78.0.2 53; listening there 53
program ask.py <<'PY'
import socket, sys, time
QUESTION = b"\x12\x34\1\0\0\1\0\0\0\0\0\0\4shop\0\0\1\0\1"
def opened(port):
    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asking.bind(("", port))
    asking.connect(("10.77.0.2", 53))
    asking.settimeout(0.5)
    return asking
port = int(sys.argv[1])
kept = opened(port) if port else None
while True:
    asking = kept or opened(0)
    asking.send(QUESTION)
    try:
        asking.recv(500)
    except TimeoutError:
        pass
    if not kept:
        asking.close()
    time.sleep(0.2)
PY
start here python3 "$WORK/ask.py" 4444
start here python3 "$WORK/ask.py" 0
sleep 0.5
on router nft -f - <<'END'
table ip elsewhere {
	chain forward {
		type filter hook forward priority 0;
		iifname near udp sport 4444 drop
	}
}
END
sleep 1; measure here
