# SPDX-License-Identifier: GPL-2.0-only
# True: The server may have 24 descriptors, and clients stay: accept() fails (EMFILE), and is tried again each second.
# Say: accepted by python3.*: .*may have 24
. ./lib.sh || exit 1
host one
program server.py <<'END'
import asyncio, resource

async def serve(reader, writer):
    while line := await reader.readline():
        writer.write(line)
    writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 8000)
    resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
    await server.serve_forever()

asyncio.run(main())
END
program clients.py <<'END'
import socket, threading, time

def client():
    while True:
        with socket.create_connection(("127.0.0.1", 8000)) as connection:
            until = time.monotonic() + 3
            while time.monotonic() < until:
                connection.sendall(b"ask\n")
                connection.recv(100)
                time.sleep(0.1)

for _ in range(30):
    threading.Thread(target=client).start()
    time.sleep(0.05)
END
start one python3 "$WORK/server.py"
listening one 8000
start one python3 "$WORK/clients.py"
sleep 4; measure one
