# SPDX-License-Identifier: GPL-2.0-only
# True: A search list of four domains makes five questions to the name server of each look-up, on a path of 30 ms, before each connect.
# Say: 10\.77\.0\.2:53.*5 questions|5 questions.*10\.77\.0\.2:53
. ./lib.sh || exit 1
pair --delay 0.015
program dns.py <<'PY'
import socket, struct
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("10.77.0.2", 53))
while True:
    question, client = server.recvfrom(600)
    end = question.index(b"\0", 12) + 5
    kind = question[end - 3]
    if question[12:end - 4] != b"\x03svc\x04shop\0":
        server.sendto(question[:2] + b"\x81\x83\0\1\0\0\0\0\0\0" + question[12:end], client)
    elif kind != 1:
        server.sendto(question[:2] + b"\x81\x80\0\1\0\0\0\0\0\0" + question[12:end], client)
    else:
        record = struct.pack("!HHHIH4B", 0xC00C, 1, 1, 0, 4, 10, 77, 0, 2)
        server.sendto(question[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + question[12:end] + record, client)
PY
start there python3 "$WORK/dns.py"; listening there 53
server there 10.77.0.2 8000
cat >"$WORK/resolv.conf" <<'END'
nameserver 10.77.0.2
search a.cluster.local svc.cluster.local cluster.local eu.example.net
options ndots:5
END
mount --bind "$WORK/resolv.conf" /etc/resolv.conf
client here svc.shop 8000 --new --connections 3
sleep 1; measure here
