# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: five mail programs wait for mail (IMAP IDLE), which comes each three seconds for all, and fetch it.
# Say: ^$
. ./lib.sh || exit 1
pair --delay 0.015
program service.py <<'PY'
import asyncio
idle = set()
async def serve(reader, writer):
    writer.write(b"* OK ready\r\n")
    idle.add(writer)
    while line := await reader.readline():
        if line == b"IDLE\r\n":
            writer.write(b"+ idling\r\n")
        elif line == b"FETCH\r\n":
            writer.write(b"." * 3000 + b"\r\n")
        else:
            writer.write(b"OK\r\n")
    idle.discard(writer)
async def deliver():
    while True:
        await asyncio.sleep(3)
        for writer in idle:
            writer.write(b"* 5 EXISTS\r\n")
async def main():
    delivering = asyncio.create_task(deliver())
    await (await asyncio.start_server(serve, "10.77.0.2", 143)).serve_forever()
asyncio.run(main())
PY
start there python3 "$WORK/service.py"; listening there 143
program clients.py <<'PY'
import socket, threading
def wait():
    server = socket.create_connection(("10.77.0.2", 143))
    lines = server.makefile("rb")
    lines.readline()
    while True:
        server.sendall(b"IDLE\r\n"); lines.readline(); lines.readline()
        for word in b"DONE\r\n", b"FETCH\r\n":
            server.sendall(word); lines.readline()
for _ in range(5):
    threading.Thread(target=wait).start()
PY
start here python3 "$WORK/clients.py"; CLIENTS=$LAST
sleep 4; SECONDS_OF_ONE=10 measure here; SECONDS_OF_ONE=10 measure here -p "$CLIENTS"
SECONDS_OF_ONE=10 measure there
