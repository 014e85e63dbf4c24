# SPDX-License-Identifier: GPL-2.0-only
# True: The name server takes 250 ms for each answer; a node program asks it before each request.
# Say: 10.77.0.2:53.*takes
# Needs: node
. ./lib.sh || exit 1
pair
program dns.py <<'PY'
import socket, struct, threading, time
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("10.77.0.2", 53))
def answer(question, client):
    time.sleep(0.25)
    end = question.index(b"\0", 12) + 5
    record = struct.pack("!HHHIH4B", 0xC00C, 1, 1, 0, 4, 10, 77, 0, 2)
    server.sendto(question[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + question[12:end] + record, client)
while True:
    threading.Thread(target=answer, args=server.recvfrom(600)).start()
PY
start there python3 "$WORK/dns.py"
server there 10.77.0.2 8000
program ask.js <<'JS'
const { Resolver } = require('dns');
const resolver = new Resolver();
resolver.setServers(['10.77.0.2']);
const ask = () => resolver.resolve4('svc.test', () => setTimeout(ask, 200));
ask();
JS
start here node "$WORK/ask.js"
client here 10.77.0.2 8000
sleep 1; measure here
