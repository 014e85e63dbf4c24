# SPDX-License-Identifier: GPL-2.0-only
# True: A node server computes for 150 ms in its event loop, again and again; requests wait for that.
# Say: node at :8000 .*(CPU|busy)
# Needs: node
. ./lib.sh || exit 1
pair
program server.js <<'JS'
require('http').createServer((ask, answer) => answer.end('hello')).listen(8000);
setInterval(() => { const end = Date.now() + 150; while (Date.now() < end); }, 300);
JS
start there node "$WORK/server.js"; listening there 8000
program ask.py <<'PY'
import http.client, threading, time
def ask(place):
    server = http.client.HTTPConnection("10.77.0.2", 8000)
    time.sleep(place * 0.07)
    while True:
        server.request("GET", "/")
        server.getresponse().read()
        time.sleep(0.17)
for place in range(4):
    threading.Thread(target=ask, args=(place,)).start()
PY
start here python3 "$WORK/ask.py"
sleep 1; measure there
