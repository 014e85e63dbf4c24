# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: browsers poll this server for news, up to 2 s each, and ask for pages on other connections.
# Say: ^$
. ./lib.sh || exit 1
pair
program web.py <<'PY'
import asyncio
news = asyncio.Condition()
async def tell():
    while True:
        await asyncio.sleep(0.9)
        async with news:
            news.notify_all()
async def serve(reader, writer):
    while line := await reader.readline():
        if line == b"news\n":
            try:
                async with news:
                    await asyncio.wait_for(news.wait(), 2)
            except TimeoutError:
                pass
        writer.write(b"page\n")
async def main():
    server = await asyncio.start_server(serve, "10.77.0.1", 8000)
    asyncio.create_task(tell())
    await server.serve_forever()
asyncio.run(main())
PY
start here python3 "$WORK/web.py"; listening here 8000
program browse.py <<'PY'
import socket, threading, time
def ask(what, pause):
    server = socket.create_connection(("10.77.0.1", 8000))
    lines = server.makefile("rb")
    while True:
        server.sendall(what)
        lines.readline()
        time.sleep(pause)
for of in range(4):
    threading.Thread(target=ask, args=(b"news\n", 0.02 * of)).start()
    threading.Thread(target=ask, args=(b"page\n", 0.3)).start()
PY
start there python3 "$WORK/browse.py"
sleep 2; SECONDS_OF_ONE=8; measure "${AT:-here}"
