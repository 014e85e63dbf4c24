# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a client asks two services at once, takes the first answer, and closes the other connection.
# Say: ^$
. ./lib.sh || exit 1
pair
program service.py <<'PY'
import random, socket, sys, threading, time
def serve(client):
    while client.recv(100):
        time.sleep(random.uniform(0.001, 0.009))
        try:
            client.sendall(b"answer")
        except OSError:
            return
listener = socket.create_server(("10.77.0.2", int(sys.argv[1])))
while True:
    threading.Thread(target=serve, args=listener.accept()[:1]).start()
PY
for port in 8080 8081; do
	start there python3 "$WORK/service.py" $port; listening there $port
done
program hedged.py <<'PY'
import select, socket, time
while True:
    both = [socket.create_connection(("10.77.0.2", port)) for port in (8080, 8081)]
    for one in both:
        one.sendall(b"question")
    first = select.select(both, [], [])[0][0]
    first.recv(100)
    for one in both:
        one.close()
    time.sleep(0.1)
PY
start here python3 "$WORK/hedged.py"
sleep 1; measure here
