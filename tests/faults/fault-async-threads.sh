# SPDX-License-Identifier: GPL-2.0-only
# True: An event loop gives each request to a thread, which sleeps for 120 ms; other clients keep the loop busy meanwhile.
# Say: python3 at :8000 takes 1[0-9]+ ms to answer requests
. ./lib.sh || exit 1
pair
program server.py <<'PY'
import asyncio, time
async def serve(reader, writer):
    while line := await reader.readline():
        if line.startswith(b"slow"):
            await asyncio.to_thread(time.sleep, 0.12)
        writer.write(b"ok\n")
async def main():
    await (await asyncio.start_server(serve, "10.77.0.2", 8000)).serve_forever()
asyncio.run(main())
PY
start there python3 "$WORK/server.py"; listening there 8000
program ask.py <<'PY'
import socket, threading, time
def ask(question, pause):
    server = socket.create_connection(("10.77.0.2", 8000))
    while True:
        server.sendall(question)
        server.recv(100)
        time.sleep(pause)
for _ in range(4):
    threading.Thread(target=ask, args=(b"slow question\n", 0.3)).start()
for _ in range(4):
    threading.Thread(target=ask, args=(b"quick\n", 0.01)).start()
PY
start here python3 "$WORK/ask.py"
sleep 1; SECONDS_OF_ONE=8; measure there
