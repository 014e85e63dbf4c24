# SPDX-License-Identifier: GPL-2.0-only
# True: Packets above 1300 bytes vanish on the way to the clients, and the service has closed its connections by then: small answers arrive, large ones do not.
# Say: python3.*:8000.*(full-size|MTU)|10\.77\.0\.2.*(full-size|MTU)
# Needs: curl
. ./lib.sh || exit 1
pair --delay 0.005 --most 1300
mkdir "$WORK/www"; echo small >"$WORK/www/small"; head -c 40000 /dev/zero >"$WORK/www/large"
start here python3 -m http.server -d "$WORK/www" -b 10.77.0.1 8000
listening here 8000
program ask.sh <<'SH'
while :; do
	for what in small large; do curl -s -m 4 -o /dev/null "http://10.77.0.1:8000/$what"; done
done
SH
start there bash "$WORK/ask.sh"
sleep 1; SECONDS_OF_ONE=10; measure here
