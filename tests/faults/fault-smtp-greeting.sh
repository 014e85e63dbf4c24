# SPDX-License-Identifier: GPL-2.0-only
# True: A mail server looks up each client's name for 800 ms before it greets.
# Say: 10.77.0.2:2525.*(greet|speaks first)
. ./lib.sh || exit 1
pair
program server.py <<'PY'
import asyncio
async def serve(reader, writer):
    await asyncio.sleep(0.8)
    writer.write(b"220 mail ESMTP\r\n")
    while line := await reader.readline():
        writer.write(b"221 bye\r\n" if line.startswith(b"QUIT") else b"250 ok\r\n")
    writer.close()
async def main():
    await (await asyncio.start_server(serve, "10.77.0.2", 2525)).serve_forever()
asyncio.run(main())
PY
start there python3 "$WORK/server.py"; listening there 2525
program mail.py <<'PY'
import smtplib, threading, time
def send():
    while True:
        with smtplib.SMTP("10.77.0.2", 2525) as server:
            server.ehlo()
        time.sleep(0.3)
for _ in range(2):
    threading.Thread(target=send).start()
PY
start here python3 "$WORK/mail.py"
sleep 1; measure here
