# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: eleven people chat behind a proxy; a service sends each line to all, and a ping each five seconds.
# Say: ^$
# Needs: haproxy
. ./lib.sh || exit 1
pair --delay 0.01
program service.py <<'PY'
import asyncio
people = set()
async def ping(writer):
    while True:
        await asyncio.sleep(5)
        writer.write(b"ping\n")
async def serve(reader, writer):
    people.add(writer)
    pinging = asyncio.create_task(ping(writer))
    while line := await reader.readline():
        for person in people if line != b"pong\n" else ():
            person.write(line)
    pinging.cancel()
    people.discard(writer)
async def main():
    await (await asyncio.start_server(serve, "10.77.0.2", 8000)).serve_forever()
asyncio.run(main())
PY
start there python3 "$WORK/service.py"; listening there 8000
program haproxy.cfg <<'CFG'
defaults
 mode tcp
 timeout client 60s
 timeout server 60s
 timeout connect 5s
listen all
 bind 127.0.0.1:8000
 server chat 10.77.0.2:8000
CFG
start here haproxy -db -f "$WORK/haproxy.cfg"; HAPROXY=$LAST; listening here 8000
program people.py <<'PY'
import asyncio, random
async def person(least, most):
    reader, writer = await asyncio.open_connection("127.0.0.1", 8000)
    async def read():
        while line := await reader.readline():
            if line == b"ping\n":
                writer.write(b"pong\n")
    reading = asyncio.create_task(read())
    while not reading.done():
        await asyncio.sleep(random.uniform(least, most))
        writer.write(b"hello" * random.randint(1, 12) + b"\n")
async def main():
    await asyncio.gather(*[person(2, 12) for _ in range(3)], *[person(5, 40) for _ in range(8)])
asyncio.run(main())
PY
start here python3 "$WORK/people.py"; PEOPLE=$LAST
sleep 4; SECONDS_OF_ONE=8 measure here -p "$HAPROXY"; SECONDS_OF_ONE=8 measure here -p "$PEOPLE"
SECONDS_OF_ONE=8 measure there
