# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: curl asks by TLS each 700 ms, a program fetches figures of three others each 2 s, as of cron and of monitoring, on a path of 16 ms.
# Say: ^$
# Needs: openssl curl
. ./lib.sh || exit 1
pair --delay 0.008
tls there 10.77.0.2 443
for port in 9100 9101 9102; do server there 10.77.0.2 $port --size 3000; done
program cron.sh <<'SH'
while :; do curl -sk https://10.77.0.2/ -o /dev/null; sleep 0.7; done
SH
start here bash "$WORK/cron.sh"
program monitor.py <<'PY'
import socket, time
while True:
    for port in 9100, 9101, 9102:
        with socket.create_connection(("10.77.0.2", port)) as server:
            server.sendall(b"figures\n")
            server.makefile("rb").readline()
    time.sleep(2)
PY
start here python3 "$WORK/monitor.py"; MONITOR=$LAST
sleep 1; SECONDS_OF_ONE=10 measure here; SECONDS_OF_ONE=10 measure here -p "$MONITOR"
