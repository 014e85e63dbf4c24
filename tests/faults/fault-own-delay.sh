# SPDX-License-Identifier: GPL-2.0-only
# True: haproxy waits 300 ms in each connection for more of a request than its clients send, before it passes that on.
# Say: haproxy at :8080 takes 30. ms.*same time each.*a timer of its own
# Needs: haproxy
. ./lib.sh || exit 1
pair
server there 10.77.0.2 8000
cat >"$WORK/proxy.cfg" <<'END'
defaults
	mode tcp
	timeout connect 2s
	timeout client 9s
	timeout server 9s
frontend web
	bind 10.77.0.2:8080
	tcp-request inspect-delay 300ms
	tcp-request content accept if { req.len gt 4000 }
	default_backend app
backend app
	server one 10.77.0.2:8000
END
start there haproxy -db -f "$WORK/proxy.cfg"; listening there 8080
client here 10.77.0.2 8080 --new --connections 3
sleep 1; SECONDS_OF_ONE=6; measure there --comm haproxy
