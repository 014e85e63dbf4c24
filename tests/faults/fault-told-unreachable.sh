# SPDX-License-Identifier: GPL-2.0-only
# True: A router says of new connections to one of two services of a host that they are prohibited.
# Say: 10\.77\.0\.2:8001.*a firewall on the way or at the host rejects them by ICMP
# Needs: nft
. ./lib.sh || exit 1
far
server there 10.78.0.2 8001
server there 10.78.0.2 8002
on router nft -f - <<'END'
table ip rejects {
	chain forward {
		type filter hook forward priority 0;
		iifname near tcp dport 8001 reject with icmp admin-prohibited
	}
}
END
client here 10.77.0.2 8001 --new
client here 10.77.0.2 8002
sleep 1; measure here
