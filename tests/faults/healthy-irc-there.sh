# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: six people chat; a server sends each line to all others, and nobody gets an answer.
# Say: ^$
. ./lib.sh || exit 1
pair
program server.py <<'PY'
import asyncio
people = set()
async def serve(reader, writer):
    people.add(writer)
    while line := await reader.readline():
        for person in people - {writer}:
            person.write(b":someone!x PRIVMSG #here :" + line)
async def main():
    await (await asyncio.start_server(serve, "10.77.0.2", 6667)).serve_forever()
asyncio.run(main())
PY
[ -z "${THREADS:-}" ] || program server.py <<'PY'
import socket, threading
people = []
def serve(peer):
    people.append(peer)
    for line in peer.makefile("rb"):
        for person in people:
            if person is not peer:
                person.sendall(b":someone!x PRIVMSG #here :" + line)
listener = socket.create_server(("10.77.0.2", 6667))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
PY
start there python3 "$WORK/server.py"; listening there 6667
program person.py <<'PY'
import asyncio, random
async def person():
    reader, writer = await asyncio.open_connection("10.77.0.2", 6667)
    async def read():
        while await reader.readline():
            pass
    reading = asyncio.create_task(read())
    while not reading.done():
        await asyncio.sleep(0.7 + random.random() * 2.5)
        writer.write(b"hello " * random.randint(1, 20) + b"\n")
async def main():
    await asyncio.gather(*[person() for _ in range(6)])
asyncio.run(main())
PY
start here python3 "$WORK/person.py"
sleep 2; SECONDS_OF_ONE=8; measure "${AT:-there}"
