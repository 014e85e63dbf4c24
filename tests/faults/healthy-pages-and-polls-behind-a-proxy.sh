# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a proxy passes on polls, which two services hold until they have news, and pages on the same connections.
# Say: ^$
# Needs: node haproxy
. ./lib.sh || exit 1
pair --delay 0.001
on there ip addr add 10.77.0.3/24 dev wan; on here ip route replace 10.77.0.3 dev wan
program service.js <<'JS'
for (const place of [2, 3]) {
	let polls = [];
	setInterval(() => { polls.forEach(poll => poll.end("news")); polls = []; }, 2000 + place * 700);
	require("http").createServer((request, response) => {
		if (request.url === "/poll") polls.push(response);
		else setTimeout(() => response.end("page"), 5);
	}).listen(8000, "10.77.0." + place);
}
JS
start there node "$WORK/service.js"; listening there 8000
program haproxy.cfg <<'CFG'
defaults
 mode http
 timeout client 60s
 timeout server 60s
 timeout connect 5s
listen all
 bind 127.0.0.1:80
 server two 10.77.0.2:8000 check inter 1s
 server three 10.77.0.3:8000 check inter 1s
CFG
start here haproxy -db -f "$WORK/haproxy.cfg"; HAPROXY=$LAST; listening here 80
program clients.js <<'JS'
const http = require("http");
function go(path, pause) {
	const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
	const ask = () => http.get({ path, agent }, response => response.resume()
		.on("end", () => setTimeout(ask, pause())));
	ask();
}
for (let of = 0; of < 5; of++) {
	go("/poll", () => 0);
	go("/page", () => 100 + Math.random() * 700);
}
JS
start here node "$WORK/clients.js"; CLIENTS=$LAST
sleep 3; SECONDS_OF_ONE=8 measure here -p "$HAPROXY"; SECONDS_OF_ONE=8 measure here -p "$CLIENTS"
