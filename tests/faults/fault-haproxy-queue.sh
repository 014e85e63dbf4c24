# SPDX-License-Identifier: GPL-2.0-only
# True: HAProxy may have one connection to its backend of 40 ms (maxconn 1); requests wait in HAProxy for it.
# Say: haproxy at :8080 takes.*(turn|wait)
# Needs: haproxy
. ./lib.sh || exit 1
pair
program backend.py <<'PY'
import http.server, time
class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def do_GET(self):
        time.sleep(0.04)
        self.send_response(200); self.send_header("Content-Length", "5"); self.end_headers()
        self.wfile.write(b"hello")
http.server.ThreadingHTTPServer(("10.77.0.2", 8000), Page).serve_forever()
PY
start there python3 "$WORK/backend.py"; listening there 8000
cat >"$WORK/haproxy.cfg" <<'CFG'
defaults
	mode http
	timeout connect 5s
	timeout client 30s
	timeout server 30s
	timeout queue 10s
frontend web
	bind :8080
	default_backend pages
backend pages
	server one 10.77.0.2:8000 maxconn 1
CFG
start here haproxy -f "$WORK/haproxy.cfg"; listening here 8080
program ask.py <<'PY'
import http.client, threading, time
def ask(place):
    server = http.client.HTTPConnection("127.0.0.1", 8080)
    while True:
        server.request("GET", "/")
        server.getresponse().read()
        time.sleep(0.1)
for place in range(8):
    threading.Thread(target=ask, args=(place,)).start()
PY
start here python3 "$WORK/ask.py"
sleep 1; SECONDS_OF_ONE=8; measure here
