# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: consumers of a broker wait for news up to 500 ms; the producer is answered at once.
# Say: ^$
. ./lib.sh || exit 1
pair
program broker.py <<'PY'
import asyncio
news = asyncio.Condition()
async def serve(reader, writer):
    while True:
        head = await reader.readexactly(5)
        await reader.readexactly(int.from_bytes(head[1:], "big"))
        if head[:1] == b"P":
            async with news:
                news.notify_all()
            writer.write(b"stored..")
            continue
        try:
            async with news:
                await asyncio.wait_for(news.wait(), 0.5)
        except TimeoutError:
            pass
        writer.write(b"fetched.")
async def main():
    await (await asyncio.start_server(serve, "10.77.0.2", 9092)).serve_forever()
asyncio.run(main())
PY
start there python3 "$WORK/broker.py"; listening there 9092
program client.py <<'PY'
import socket, sys, threading, time
def ask(kind, size, pause):
    broker = socket.create_connection(("10.77.0.2", 9092))
    while True:
        broker.sendall(kind + size.to_bytes(4, "big") + b"x" * size)
        broker.recv(8)
        time.sleep(pause)
threading.Thread(target=ask, args=(b"P", 3000, 0.3)).start()
for _ in range(3):
    threading.Thread(target=ask, args=(b"F", 20, 0)).start()
PY
start here python3 "$WORK/client.py"
sleep 1; measure here
