# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: each request has a TLS connection of its own, which its client ends by an alert.
# Say: ^$
# Needs: nginx curl openssl
. ./lib.sh || exit 1
pair
chmod 755 "$WORK"
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$WORK/key" -out "$WORK/cert" -days 1 \
	-subj /CN=10.77.0.1 2>/dev/null
cat >"$WORK/nginx.conf" <<CONF
daemon off; worker_processes 1; error_log stderr; pid $WORK/pid;
events {}
http {
	access_log off;
	server {
		listen 10.77.0.1:8443 ssl;
		ssl_certificate $WORK/cert; ssl_certificate_key $WORK/key;
		location / { return 200 "ok\n"; }
	}
}
CONF
start here nginx -c "$WORK/nginx.conf"
listening here 8443
for version in tls1.2 tls1.3; do
	program "$version.sh" <<SH
while :; do
	curl -sk --tls-max ${version#tls} https://10.77.0.1:8443/ >/dev/null
	sleep 0.02
done
SH
	start there bash "$WORK/$version.sh"
done
sleep 1; SECONDS_OF_ONE=8; measure "${AT:-there}"
