# SPDX-License-Identifier: GPL-2.0-only
# True: A Go program closes answers that it has not read, so each request opens a connection, on a path of 40 ms.
# Say: handshake|connect
# Needs: go
. ./lib.sh || exit 1
pair --delay 0.02
program client.go <<'GO'
package main

import (
	"net/http"
	"time"
)

func main() {
	for {
		answer, err := http.Get("http://10.77.0.2:8000/")
		if err == nil {
			answer.Body.Close()
		}
		time.Sleep(100 * time.Millisecond)
	}
}
GO
program server.go <<'GO'
package main

import "net/http"

func main() {
	page := make([]byte, 400000)
	http.ListenAndServe(":8000", http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		out.Write(page)
	}))
}
GO
go build -o "$WORK/client" "$WORK/client.go" && go build -o "$WORK/server" "$WORK/server.go" || exit 1
start there "$WORK/server"; listening there 8000
start here "$WORK/client"
sleep 1; measure here
