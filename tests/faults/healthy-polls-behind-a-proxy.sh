# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a proxy passes on polls, which a service holds for 3 s without news, and other requests.
# Say: ^$
# Needs: node haproxy curl
. ./lib.sh || exit 1
pair
program service.js <<'JS'
require("http").createServer((request, response) => {
	const answer = () => { response.writeHead(204); response.end(); };
	request.url === "/poll" ? setTimeout(answer, 3000) : answer();
}).listen(8080, "10.77.0.2");
JS
start there node "$WORK/service.js"; listening there 8080
program haproxy.cfg <<'CFG'
defaults
 mode http
 timeout client 60s
 timeout server 60s
 timeout connect 5s
listen all
 bind 10.77.0.1:80
 server one 10.77.0.2:8080
CFG
start here haproxy -f "$WORK/haproxy.cfg"; listening here 80
for delay in 0.1 0.9 1.7; do
	start here bash -c "sleep $delay; while :; do curl -s http://10.77.0.1/poll; done"
done
start here bash -c 'while :; do curl -s http://10.77.0.1/jobs; sleep 0.5; done'
sleep 4; SECONDS_OF_ONE=8; measure here
