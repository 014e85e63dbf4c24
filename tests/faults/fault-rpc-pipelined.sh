# SPDX-License-Identifier: GPL-2.0-only
# True: A file server takes 90 ms for each call; its client has eight calls under way on one connection.
# Say: 10.77.0.2:2049
. ./lib.sh || exit 1
pair
program server.py <<'PY'
import asyncio
async def serve(reader, writer):
    async def answer(call):
        await asyncio.sleep(0.09)
        writer.write(call)
    while True:
        call = await reader.readexactly(64)
        asyncio.create_task(answer(call))
async def main():
    await (await asyncio.start_server(serve, "10.77.0.2", 2049)).serve_forever()
asyncio.run(main())
PY
start there python3 "$WORK/server.py"; listening there 2049
program mount.py <<'PY'
import asyncio, struct
async def main():
    reader, writer = await asyncio.open_connection("10.77.0.2", 2049)
    waiting = {}
    async def receive():
        while True:
            answer = await reader.readexactly(64)
            waiting.pop(struct.unpack("!I", answer[:4])[0]).set_result(None)
    async def call(number):
        while True:
            number += 100
            waiting[number] = asyncio.get_running_loop().create_future()
            writer.write(struct.pack("!I60x", number))
            await waiting[number]
            await asyncio.sleep(0.1 + number % 7 / 50)
    await asyncio.gather(receive(), *(call(number) for number in range(8)))
asyncio.run(main())
PY
start here python3 "$WORK/mount.py"
sleep 1; measure here
