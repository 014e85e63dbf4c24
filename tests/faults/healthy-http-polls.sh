# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: pages ask for news with a connection each, and the server answers "nothing" after 2 s; other pages come at once.
# Say: ^$
. ./lib.sh || exit 1
pair
program web.py <<'PY'
import asyncio
async def serve(reader, writer):
    head = await reader.readuntil(b"\r\n\r\n")
    if b"/news" in head:
        await asyncio.sleep(2)
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
    else:
        body = b"page" * 300
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    await writer.drain()
    writer.close()
async def main():
    await (await asyncio.start_server(serve, "10.77.0.1", 8000)).serve_forever()
asyncio.run(main())
PY
start here python3 "$WORK/web.py"; listening here 8000
program browse.py <<'PY'
import threading, time, urllib.request
def ask(what, pause):
    while True:
        urllib.request.urlopen("http://10.77.0.1:8000" + what).read()
        time.sleep(pause)
for of in range(3):
    threading.Thread(target=ask, args=("/news", 0.02)).start()
    threading.Thread(target=ask, args=("/page", 0.2)).start()
PY
start there python3 "$WORK/browse.py"
sleep 2; SECONDS_OF_ONE=8; measure "${AT:-here}"
