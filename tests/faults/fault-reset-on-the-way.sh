# SPDX-License-Identifier: GPL-2.0-only
# True: A firewall on the way resets new connections now and then, and lets others pass.
# Say: python3 to 10\.77\.0\.2:8000 (were reset at once|met a connection that was reset)
# Needs: nft
. ./lib.sh || exit 1
far
server there "" 8000
on router nft -f - <<'END'
table ip some {
	chain some {
		type filter hook forward priority 0;
		iifname near tcp dport 8000 ct original packets 2 \
			numgen random mod 10 < 4 reject with tcp reset
	}
}
END
client here 10.77.0.2 8000 --new --pause 0.1
client here 10.77.0.2 8000 --connections 1 --pause 0.1
sleep 1; measure here
