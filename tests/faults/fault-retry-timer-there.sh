# SPDX-License-Identifier: GPL-2.0-only
# True: A service asks a helper for each third request by a datagram that is lost, and asks again after a second.
# Say: python3 at :8000 takes [12]\.[0-9]+ s to answer requests
. ./lib.sh || exit 1
pair
program server.py <<'PY'
import asyncio, itertools
turn = itertools.count()
async def ask_helper():
    for _ in range(2):
        if next(turn) % 3:
            return
        await asyncio.sleep(1)
async def serve(reader, writer):
    while await reader.readline():
        await ask_helper()
        writer.write(b"ok\n")
async def main():
    await (await asyncio.start_server(serve, "10.77.0.2", 8000)).serve_forever()
asyncio.run(main())
PY
start there python3 "$WORK/server.py"; listening there 8000
program ask.py <<'PY'
import random, socket, threading, time
def ask():
    server = socket.create_connection(("10.77.0.2", 8000))
    while True:
        server.sendall(b"question\n")
        server.recv(100)
        time.sleep(0.1 + random.random() / 2)
for _ in range(4):
    threading.Thread(target=ask).start()
PY
start here python3 "$WORK/ask.py"
sleep 2; SECONDS_OF_ONE=8; measure there
