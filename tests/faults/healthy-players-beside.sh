# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: an event loop sends films to two players that read at their own pace, and short pages to others at once.
# Say: ^$
. ./lib.sh || exit 1
pair --delay 0.002
program films.py <<'PY'
import asyncio
async def serve(reader, writer):
    while line := await reader.readline():
        writer.write(b"." * (19_999_999 if b"film" in line else 199) + b"\n")
async def main():
    await (await asyncio.start_server(serve, "10.77.0.1", 8000)).serve_forever()
asyncio.run(main())
PY
start here python3 "$WORK/films.py"; listening here 8000
program play.py <<'PY'
import socket, time
films = [socket.create_connection(("10.77.0.1", 8000)) for _ in range(2)]
for film in films:
    film.sendall(b"film\n")
while True:
    for film in films:
        film.recv(25000)
    time.sleep(0.1)
PY
start there python3 "$WORK/play.py"
client there 10.77.0.1 8000 --connections 3
sleep 2; measure here
