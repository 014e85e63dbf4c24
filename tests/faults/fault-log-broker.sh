# SPDX-License-Identifier: GPL-2.0-only
# True: A broker takes 120 ms to store each batch of the producer; its consumer waits for news, as it should.
# Say: 10.77.0.2:9092 takes .*producer
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
            await asyncio.sleep(0.12)
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
program producer <<'PY'
#!/usr/bin/python3
import socket, time
broker = socket.create_connection(("10.77.0.2", 9092))
while True:
    broker.sendall(b"P" + (3000).to_bytes(4, "big") + b"x" * 3000)
    broker.recv(8)
    time.sleep(0.2)
PY
program consumer <<'PY'
#!/usr/bin/python3
import socket
broker = socket.create_connection(("10.77.0.2", 9092))
while True:
    broker.sendall(b"F" + (20).to_bytes(4, "big") + b"x" * 20)
    broker.recv(8)
PY
start here "$WORK/producer"; start here "$WORK/consumer"
sleep 1; measure here
