# SPDX-License-Identifier: GPL-2.0-only
# True: Each request opens a connection with TLS, on a path of 150 ms: two round trips in three are handshakes.
# Say: 10\.77\.0\.2:443.*(keep-alive|handshake)
# Needs: openssl curl
. ./lib.sh || exit 1
pair --delay 0.075
tls there 10.77.0.2 443
program client.sh <<'SH'
while :; do curl -sk https://10.77.0.2/ -o /dev/null; sleep 0.1; done
SH
start here bash "$WORK/client.sh"
sleep 1; SECONDS_OF_ONE=8; measure here
