# SPDX-License-Identifier: GPL-2.0-only
# True: A report keeps a SQLite file locked for 300 ms at a time; each request writes to it, with a busy timeout.
# Say: (python3|:8000).*report.* holds a lock on a file .*stock.db
. ./lib.sh || exit 1
pair
program web.py <<'PY'
import os, socket, sqlite3, threading, time
file = os.path.join(os.environ["WORK"], "stock.db")
def to():
    return sqlite3.connect(file, timeout=5, isolation_level=None, check_same_thread=False)
to().executescript("create table if not exists stock (n); insert into stock values (0);")
def report():
    open("/proc/self/comm", "w").write("report")
    database = to()
    while True:
        database.execute("begin exclusive")
        time.sleep(0.3)
        database.execute("commit")
        time.sleep(0.1)
def serve(peer):
    database = to()
    for line in peer.makefile("rb"):
        database.execute("update stock set n = n + 1")
        peer.sendall(b"ok\n")
if os.fork() == 0:
    report()
listener = socket.create_server(("10.77.0.1", 8000), backlog=128)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
PY
export WORK; start here python3 "$WORK/web.py"; listening here 8000
client there 10.77.0.1 8000 --size 3 --connections 2
sleep 1; measure here
