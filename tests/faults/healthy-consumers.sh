# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: consumers fetch from a broker, which holds a fetch for 500 ms at most, work on what came, and confirm it.
# Say: ^$
. ./lib.sh || exit 1
pair
program broker.py <<'PY'
import asyncio
news = asyncio.Condition()
log = []
async def serve(reader, writer):
    place = len(log)
    while True:
        head = await reader.readexactly(5)
        await reader.readexactly(int.from_bytes(head[1:], "big"))
        if head[:1] == b"P":
            async with news:
                log.append(b"x" * 900)
                news.notify_all()
            answer = b"stored"
        elif head[:1] == b"C":
            answer = b"ok"
        else:
            try:
                async with news:
                    await asyncio.wait_for(news.wait_for(lambda: len(log) > place), 0.5)
            except TimeoutError:
                pass
            answer = b"".join(log[place:])
            place = len(log)
        writer.write(len(answer).to_bytes(4, "big") + answer)
async def main():
    await (await asyncio.start_server(serve, "10.77.0.2", 9092)).serve_forever()
asyncio.run(main())
PY
start there python3 "$WORK/broker.py"; listening there 9092
program client.py <<'PY'
import socket, threading, time
def ask(broker, kind, size):
    broker.sendall(kind + size.to_bytes(4, "big") + b"x" * size)
    size = int.from_bytes(broker.recv(4), "big")
    rest = size
    while rest:
        rest -= len(broker.recv(rest))
    return size
def produce():
    broker = socket.create_connection(("10.77.0.2", 9092))
    while True:
        ask(broker, b"P", 900)
        time.sleep(0.8)
def consume(work):
    broker = socket.create_connection(("10.77.0.2", 9092))
    while True:
        if ask(broker, b"F", 30):
            time.sleep(work)
            ask(broker, b"C", 40)
threading.Thread(target=produce).start()
for work in (0.1, 0.2, 0.3):
    threading.Thread(target=consume, args=(work,)).start()
PY
start here python3 "$WORK/client.py"
sleep 1; SECONDS_OF_ONE=8; measure "${AT:-here}"
