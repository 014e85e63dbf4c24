# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a server streams a figure each 300 ms to a standby, which acknowledges all of them each second.
# Say: ^$
. ./lib.sh || exit 1
pair
program server.py <<'PY'
import asyncio
async def serve(reader, writer):
    line = await reader.readline()
    if line != b"stream\n":
        while line:
            writer.write(b"pong\n")
            line = await reader.readline()
        return
    async def acknowledged():
        while await reader.readline():
            pass
    acknowledging = asyncio.create_task(acknowledged())
    while not acknowledging.done():
        writer.write(b"figure 123\n")
        await asyncio.sleep(0.3)
async def main():
    await (await asyncio.start_server(serve, "10.77.0.1", 7000)).serve_forever()
asyncio.run(main())
PY
start here python3 "$WORK/server.py"; listening here 7000
program standby.py <<'PY'
import socket, threading, time
def connect(word):
    server = socket.create_connection(("10.77.0.1", 7000))
    server.sendall(word)
    return server
def acknowledge(server):
    while True:
        time.sleep(1)
        server.sendall(b"ack\n")
standby = connect(b"stream\n")
threading.Thread(target=acknowledge, args=[standby]).start()
def ping():
    server = connect(b"ping\n")
    while server.recv(100):
        time.sleep(0.4)
        server.sendall(b"ping\n")
threading.Thread(target=ping).start()
while standby.recv(1000):
    pass
PY
start there python3 "$WORK/standby.py"
sleep 1; SECONDS_OF_ONE=8; measure here
