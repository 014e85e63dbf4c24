# SPDX-License-Identifier: GPL-2.0-only
# True: The firewall of the server limits new connections; clients send their SYNs again. Measured at the server.
# Say: 8000.*this host's own firewall
# Needs: nft
. ./lib.sh || exit 1
pair
server there 10.77.0.2 8000
on there nft -f - <<'END'
table inet drops {
	chain input {
		type filter hook input priority 0;
		tcp flags & (syn | ack) != syn accept
		tcp dport 8000 limit rate 4/second burst 2 packets accept
		tcp dport 8000 counter drop
	}
}
END
client here 10.77.0.2 8000 --new
sleep 1; measure there
