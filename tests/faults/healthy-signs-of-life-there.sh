# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a service sends each client a sign of life every 2 s, and they answer it.
# Say: ^$
. ./lib.sh || exit 1
pair
program lobby.py <<'PY'
import asyncio
async def serve(reader, writer):
    await reader.readline()
    writer.write(b"welcome\n")
    while True:
        await asyncio.sleep(2)
        writer.write(b"ping\n")
        await reader.readline()
async def main():
    await (await asyncio.start_server(serve, "10.77.0.2", 8765)).serve_forever()
asyncio.run(main())
PY
start there python3 "$WORK/lobby.py"; listening there 8765
program member.py <<'PY'
import socket, threading, time
def stay():
    lobby = socket.create_connection(("10.77.0.2", 8765))
    lobby.sendall(b"hello\n")
    lobby.recv(100)
    while lobby.recv(100):
        lobby.sendall(b"pong\n")
for _ in range(5):
    threading.Thread(target=stay).start()
    time.sleep(0.3)
PY
start here python3 "$WORK/member.py"
sleep 3; SECONDS_OF_ONE=8; measure there
