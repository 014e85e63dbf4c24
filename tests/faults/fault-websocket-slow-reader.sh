# SPDX-License-Identifier: GPL-2.0-only
# True: A server pushes 400 KB/s to each of five clients; 10.77.0.4 reads a quarter of that.
# Say: 10\.77\.0\.4.*(window|reads)|(window|reads).*10\.77\.0\.4
. ./lib.sh || exit 1
pair
for one in 3 4 5 6; do ip -n there addr add 10.77.0.$one/24 dev wan; done
program server.py <<'PY'
import asyncio
clients = set()
async def serve(reader, writer):
    writer.transport.set_write_buffer_limits(high=200000)
    asyncio.create_task(push(writer))
    while await reader.read(100):
        pass
async def push(writer):
    while True:
        writer.write(b"\x82" + b"x" * 19999)
        await writer.drain()
        await asyncio.sleep(0.05)
async def main():
    await (await asyncio.start_server(serve, "10.77.0.1", 8080)).serve_forever()
asyncio.run(main())
PY
start here python3 "$WORK/server.py"; listening here 8080
program client.py <<'PY'
import socket, threading, time
def read(place):
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    client.bind((f"10.77.0.{place}", 0))
    client.connect(("10.77.0.1", 8080))
    client.sendall(b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n")
    while client.recv(10000):
        if place == 4:
            time.sleep(0.1)
for place in range(2, 7):
    threading.Thread(target=read, args=(place,)).start()
PY
start there python3 "$WORK/client.py"
sleep 2; measure here
