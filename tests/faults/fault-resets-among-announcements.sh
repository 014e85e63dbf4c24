# SPDX-License-Identifier: GPL-2.0-only
# True: The server resets connections now and then. It and another host tell by ARP which addresses they have; each has its own.
# Say: 10.77.0.2:8000 met a connection that was reset[^;]* → 
. ./lib.sh || exit 1
host lan; ip -n lan link add name sw0 type bridge; ip -n lan link set dev sw0 up
for at in here there twin; do
	host $at
	ip -n $at link add wan type veth peer name $at netns lan
	ip -n lan link set dev $at master sw0 up; ip -n $at link set dev wan up
done
ip -n here addr add 10.77.0.1/24 dev wan
ip -n there addr add 10.77.0.2/24 dev wan; ip -n twin addr add 10.77.0.3/24 dev wan
lines there 10.77.0.2 8000 <<'PY'
import os, random, socket, struct
def answer(peer):
    if random.random() < 0.3:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(peer.detach())
    else:
        peer.sendall(b"ok\n")
PY
client here 10.77.0.2 8000 --size 3
start there python3 "$HERE/announce.py" wan 10.77.0.2
start twin python3 "$HERE/announce.py" wan 10.77.0.3
sleep 1; SECONDS_OF_ONE=7; measure here
