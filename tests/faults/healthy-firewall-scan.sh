# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: the firewall of the server keeps one client out, who tries again and again, beside others.
# Say: ^$
# Needs: nft
. ./lib.sh || exit 1
pair
server there 10.77.0.2 8000
ip -n here addr add 10.77.0.9/24 dev wan
on there nft -f - <<'END'
table inet drops {
	chain input {
		type filter hook input priority 0;
		ip saddr 10.77.0.9 counter drop
	}
}
END
client here 10.77.0.2 8000 --new
start here python3 -c '
import socket, time
while True:
    try:
        socket.create_connection(("10.77.0.2", 8000), timeout=1.5, source_address=("10.77.0.9", 0))
    except OSError:
        time.sleep(0.1)
'
sleep 1; measure there
