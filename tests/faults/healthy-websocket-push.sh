# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a server pushes news each 700 ms to four clients, which answer some of them.
# Say: ^$
. ./lib.sh || exit 1
pair
program server.py <<'PY'
import asyncio
async def serve(reader, writer):
    await reader.read(1000)
    writer.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
    async def receive():
        while await reader.read(100):
            pass
    asyncio.create_task(receive())
    while True:
        await asyncio.sleep(0.7)
        writer.write(b"\x81\x04news")
async def main():
    await (await asyncio.start_server(serve, "10.77.0.1", 8080)).serve_forever()
asyncio.run(main())
PY
start here python3 "$WORK/server.py"; listening here 8080
program client.py <<'PY'
import socket, threading
def read():
    client = socket.create_connection(("10.77.0.1", 8080))
    client.sendall(b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n")
    count = 0
    while client.recv(1000):
        count += 1
        if count % 3 == 0:
            client.sendall(b"\x8a\x80abcd")
for _ in range(4):
    threading.Thread(target=read).start()
PY
start there python3 "$WORK/client.py"
sleep 1; measure here
