# SPDX-License-Identifier: GPL-2.0-only
# True: nginx lets three requests a second pass for each client, and holds the others by a timer of its own.
# Say: nginx at :8080.*timer
# Needs: nginx curl
. ./lib.sh || exit 1
pair
mkdir "$WORK/pages"; echo page >"$WORK/pages/index.html"
program nginx.conf <<NGINX
daemon off; user root; worker_processes 1; pid $WORK/pid; error_log $WORK/log crit;
events {}
http {
	access_log off;
	limit_req_zone \$binary_remote_addr zone=each:1m rate=3r/s;
	server {
		listen 10.77.0.2:8080;
		location / { limit_req zone=each burst=20; root $WORK/pages; }
	}
}
NGINX
start there nginx -c "$WORK/nginx.conf"; listening there 8080
program client.sh <<'SH'
while :; do curl -s http://10.77.0.2:8080/index.html -o /dev/null; sleep 0.05; done
SH
start here bash "$WORK/client.sh"
sleep 1; SECONDS_OF_ONE=6; measure there
