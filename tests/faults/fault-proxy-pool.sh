# SPDX-License-Identifier: GPL-2.0-only
# True: A Go proxy has one connection to a backend of 40 ms; requests wait in the proxy for it, up to 200 ms.
# Say: at :8080 takes
# Needs: go
. ./lib.sh || exit 1
pair
program proxy.go <<'GO'
package main

import (
	"net/http"
	"net/http/httputil"
	"net/url"
)

func main() {
	backend, _ := url.Parse("http://10.77.0.2:8000")
	proxy := httputil.NewSingleHostReverseProxy(backend)
	proxy.Transport = &http.Transport{MaxConnsPerHost: 1}
	http.ListenAndServe(":8080", proxy)
}
GO
program backend.go <<'GO'
package main

import (
	"net/http"
	"time"
)

func main() {
	http.ListenAndServe(":8000", http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		time.Sleep(40 * time.Millisecond)
		out.Write([]byte("hello"))
	}))
}
GO
go build -o "$WORK/proxy" "$WORK/proxy.go" && go build -o "$WORK/backend" "$WORK/backend.go" || exit 1
start there "$WORK/backend"; listening there 8000
start here "$WORK/proxy"; listening here 8080
program ask.py <<'PY'
import http.client, threading, time
def ask(place):
    server = http.client.HTTPConnection("127.0.0.1", 8080)
    while True:
        server.request("GET", "/")
        server.getresponse().read()
        time.sleep(0.1)
for place in range(6):
    threading.Thread(target=ask, args=(place,)).start()
PY
start here python3 "$WORK/ask.py"
sleep 1; measure here
