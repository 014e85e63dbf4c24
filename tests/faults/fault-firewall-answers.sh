# SPDX-License-Identifier: GPL-2.0-only
# True: A rule of the server's firewall, a container of this host, drops the answers of one of its two services.
# Say: 10.77.0.2:8001.*this host's own firewall
# Needs: nft
. ./lib.sh || exit 1
pair
server there 10.77.0.2 8001
server there 10.77.0.2 8002
client here 10.77.0.2 8001 --timeout 1.5
client here 10.77.0.2 8002
sleep 1
on there nft -f - <<'END'
table inet drops {
	chain output {
		type filter hook output priority 0;
		tcp sport 8001 tcp flags & (syn | psh) != syn counter drop
	}
}
END
measure here
