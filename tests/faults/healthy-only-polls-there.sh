# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong at the server: pages ask for news on connections that stay, and none come for minutes.
# Say: ^$
# Needs: node
. ./lib.sh || exit 1
pair
program news.js <<'JS'
const held = [];
require("http").createServer((request, response) => {
    if (request.url === "/news") held.push(response);
    else response.end("page");
}).listen(8000, "10.77.0.2");
JS
start there node "$WORK/news.js"; listening there 8000
program page.js <<'JS'
const http = require("http"), agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
const options = { host: "10.77.0.2", port: 8000, agent };
http.get({ ...options, path: "/" }, response => {
    response.resume();
    response.on("end", () => setTimeout(() => http.get({ ...options, path: "/news" }), 300));
});
setTimeout(() => {}, 1e6);
JS
for _ in 1 2 3 4; do start here node "$WORK/page.js"; done
sleep 3; measure there
