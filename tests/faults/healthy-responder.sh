# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a broker hands a question each 300 ms to a responder, which answers at once.
# Say: ^$
. ./lib.sh || exit 1
pair
program broker.py <<'PY'
import asyncio
async def serve(reader, writer):
    kind = await reader.readline()
    if kind == b"responder\n":
        while question := await questions.get():
            writer.write(question)
            asker = askers.pop(0)
            asker.write(await reader.readline())
    while question := await reader.readline():
        askers.append(writer)
        await questions.put(question)
askers, questions = [], asyncio.Queue()
async def main():
    await (await asyncio.start_server(serve, "10.77.0.1", 4222)).serve_forever()
asyncio.run(main())
PY
start here python3 "$WORK/broker.py"; listening here 4222
program clients.py <<'PY'
import socket, threading, time
def connect(kind):
    broker = socket.create_connection(("10.77.0.1", 4222))
    broker.sendall(kind)
    return broker, broker.makefile("rb")
def respond():
    broker, lines = connect(b"responder\n")
    for question in lines:
        broker.sendall(b"answer " + question)
threading.Thread(target=respond).start()
time.sleep(0.3)
broker, lines = connect(b"asker\n")
while True:
    broker.sendall(b"how much?\n")
    lines.readline()
    time.sleep(0.3)
PY
start there python3 "$WORK/clients.py"
sleep 1; measure here
