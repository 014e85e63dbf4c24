# SPDX-License-Identifier: GPL-2.0-only
# True: The firewall of the server, a container of this host, drops every second SYN; its clients wait for a second.
# Say: 10.77.0.2:8000.*this host's own firewall
# Needs: nft
. ./lib.sh || exit 1
pair
server there 10.77.0.2 8000
on there nft -f - <<'END'
table inet drops {
	chain input {
		type filter hook input priority 0;
		tcp dport 8000 tcp flags & (syn | ack) == syn numgen inc mod 2 == 0 counter drop
	}
}
END
client here 10.77.0.2 8000 --new
sleep 1; measure here
