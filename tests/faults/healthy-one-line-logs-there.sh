# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong at the collector: programs send it a line each by a connection that they close a second later, or keep.
# Say: ^$
. ./lib.sh || exit 1
pair
program collector.py <<'PY'
import asyncio
async def serve(reader, writer):
    while await reader.readline():
        pass
    writer.close()
async def main():
    await (await asyncio.start_server(serve, "10.77.0.2", 2003)).serve_forever()
asyncio.run(main())
PY
start there python3 "$WORK/collector.py"; listening there 2003
program log.py <<'PY'
import socket, threading, time
def tell(once, pause):
    while True:
        with socket.create_connection(("10.77.0.2", 2003)) as collector:
            collector.sendall(b"shop.orders 3 1700000000\n")
            time.sleep(pause)
        if not once:
            time.sleep(1000)
for pause in [0.5, 1, 1, 1000]:
    threading.Thread(target=tell, args=(True, pause)).start()
PY
start here python3 "$WORK/log.py"
sleep 2; measure there
