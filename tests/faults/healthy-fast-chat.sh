# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: thirty people chat, each says something in 1 to 6 s; a service sends each line to all.
# Say: ^$
. ./lib.sh || exit 1
pair
program service.py <<'PY'
import asyncio
people = set()
async def serve(reader, writer):
    people.add(writer)
    while line := await reader.readline():
        for person in people:
            person.write(line)
async def main():
    await (await asyncio.start_server(serve, "10.77.0.2", 8000)).serve_forever()
asyncio.run(main())
PY
start there python3 "$WORK/service.py"; SERVICE=$LAST; listening there 8000
program people.py <<'PY'
import asyncio, random
async def person():
    reader, writer = await asyncio.open_connection("10.77.0.2", 8000)
    async def read():
        while await reader.readline():
            pass
    reading = asyncio.create_task(read())
    while not reading.done():
        await asyncio.sleep(random.uniform(1, 6))
        writer.write(b"hello" * random.randint(1, 12) + b"\n")
async def main():
    await asyncio.gather(*[person() for _ in range(30)])
asyncio.run(main())
PY
start here python3 "$WORK/people.py"; PEOPLE=$LAST
sleep 2; SECONDS_OF_ONE=8 measure here -p "$PEOPLE"; SECONDS_OF_ONE=8 measure there -p "$SERVICE"
