# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a broker pushes news each 700 ms to two subscribers, which confirm each piece and send a sign of life now and then.
# Say: ^$
. ./lib.sh || exit 1
pair
program broker.py <<'PY'
import asyncio
async def serve(reader, writer):
    async def push():
        while True:
            await asyncio.sleep(0.7)
            writer.write(b"\x32" + b"n" * 99)
    asyncio.create_task(push())
    while sign := await reader.read(100):
        if b"\xc0" in sign:
            writer.write(b"\xd0\0")
async def main():
    await (await asyncio.start_server(serve, "10.77.0.2", 1883)).serve_forever()
asyncio.run(main())
PY
start there python3 "$WORK/broker.py"; listening there 1883
program subscribe.py <<'PY'
import asyncio
async def subscribe():
    reader, writer = await asyncio.open_connection("10.77.0.2", 1883)
    writer.write(b"\x82" + b"s" * 20)
    async def signs():
        while True:
            await asyncio.sleep(3.9)
            writer.write(b"\xc0\0")
    asyncio.create_task(signs())
    while news := await reader.read(1000):
        if news[0] == 0x32:
            writer.write(b"\x40\2\0\1")
async def main():
    await asyncio.gather(subscribe(), subscribe())
asyncio.run(main())
PY
start here python3 "$WORK/subscribe.py"
sleep 1; SECONDS_OF_ONE=8; measure here
