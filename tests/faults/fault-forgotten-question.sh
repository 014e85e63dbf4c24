# SPDX-License-Identifier: GPL-2.0-only
# True: An event loop forgets one question in three; its clients are patient, and wait without end.
# Say: 10.77.0.2:8000 does not answer python3
. ./lib.sh || exit 1
pair
program server.py <<'PY'
import asyncio, itertools
numbers = itertools.count(1)
async def serve(reader, writer):
    while await reader.readline():
        if next(numbers) % 3:
            writer.write(b"x\n")
async def main():
    async with await asyncio.start_server(serve, "10.77.0.2", 8000) as server:
        await server.serve_forever()
asyncio.run(main())
PY
start there python3 "$WORK/server.py"; listening there 8000
client here 10.77.0.2 8000 --new --size 2
SECONDS_OF_ONE=6; measure here
