# SPDX-License-Identifier: GPL-2.0-only
# True: A server has two workers for eight connections; each request keeps one for 60 ms.
# Say: at :8000 reads requests .*workers
. ./lib.sh || exit 1
pair
program server.py <<'PY'
import concurrent.futures, selectors, socket, time
workers = concurrent.futures.ThreadPoolExecutor(2)
ready = selectors.DefaultSelector()
def work(client):
    request = client.recv(100)
    if request:
        time.sleep(0.06)
        client.sendall(b"." * 199 + b"\n")
        again.append(client)
        wake.send(b".")
again = []
wake, woken = socket.socketpair()
listener = socket.create_server(("10.77.0.1", 8000))
ready.register(listener, selectors.EVENT_READ)
ready.register(woken, selectors.EVENT_READ)
while True:
    for key, _ in ready.select():
        if key.fileobj is listener:
            ready.register(listener.accept()[0], selectors.EVENT_READ)
        elif key.fileobj is woken:
            woken.recv(100)
            while again:
                ready.register(again.pop(), selectors.EVENT_READ)
        else:
            ready.unregister(key.fileobj)
            workers.submit(work, key.fileobj)
PY
start here python3 "$WORK/server.py"; listening here 8000
client there 10.77.0.1 8000 --connections 8 --pause 0.05
sleep 1; measure here
