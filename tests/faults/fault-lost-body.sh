# SPDX-License-Identifier: GPL-2.0-only
# True: Two clients send the head and a third of a body, and wait 3 s for an answer; the server's threads wait for the rest.
# Say: 10\.77\.0\.2:8000 got no answer and were given up.*more data on the same connection
. ./lib.sh || exit 1
pair
program server.py <<'PY'
import http.server
class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_):
        pass
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
http.server.ThreadingHTTPServer(("10.77.0.2", 8000), Server).serve_forever()
PY
start there python3 "$WORK/server.py"; listening there 8000
program client.py <<'PY'
import http.client, socket, threading, time
HEAD = b"POST / HTTP/1.1\r\nHost: shop\r\nContent-Length: 10000\r\n\r\n"
def lose():
    while True:
        with socket.create_connection(("10.77.0.2", 8000), timeout=3) as server:
            server.sendall(HEAD + b"x" * 3000)
            try:
                server.recv(100)
            except TimeoutError:
                pass
for _ in range(2):
    threading.Thread(target=lose).start()
others = http.client.HTTPConnection("10.77.0.2", 8000)
while True:
    others.request("POST", "/", b"x" * 10000)
    others.getresponse().read()
    time.sleep(0.2)
PY
start here python3 "$WORK/client.py"
sleep 1; SECONDS_OF_ONE=8; measure here
