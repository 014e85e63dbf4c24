# SPDX-License-Identifier: GPL-2.0-only
# True: An event loop answers each request after a timer of one second, which somebody left in it.
# Say: python3 at :8000 takes 1\.[0-9]+ s to answer requests
. ./lib.sh || exit 1
pair
program server.py <<'PY'
import asyncio
async def serve(reader, writer):
    while await reader.readline():
        await asyncio.sleep(1)
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
