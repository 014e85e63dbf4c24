# SPDX-License-Identifier: GPL-2.0-only
# True: The threads of node's pool are in open() of a FIFO for up to 0.8 s at a time, and requests need one of them.
# Say: node at :8000 takes .* to answer.*a FIFO that they open
# Needs: node mkfifo
. ./lib.sh || exit 1
pair
mkfifo "$WORK/fifo"
program server.js <<JS
const http = require('http'), fs = require('fs');
const serve = (request, answer) => fs.readFile(__filename, () => answer.end('x'));
http.createServer(serve).listen(8000, '10.77.0.2');
const open = () => fs.open('$WORK/fifo', 'r', (error, file) => file && fs.close(file, () => {}));
setInterval(() => { for (let thread = 0; thread < 4; thread++) open(); }, 1100);
JS
start there node "$WORK/server.js"; listening there 8000
start there bash -c "while sleep 0.8; do : <>'$WORK/fifo'; done"
program client.py <<'PY'
import http.client, threading, time
def ask():
    server = http.client.HTTPConnection("10.77.0.2", 8000)
    while True:
        server.request("GET", "/")
        server.getresponse().read()
        time.sleep(0.15)
for _ in range(4):
    threading.Thread(target=ask).start()
PY
start here python3 "$WORK/client.py"
sleep 1.5; SECONDS_OF_ONE=8; measure "${AT:-there}"
