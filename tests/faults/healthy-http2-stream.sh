# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: a service over HTTP/2 streams one event in 600 ms, and answers other calls at once.
# Say: ^$
# Needs: node
. ./lib.sh || exit 1
pair
program server.js <<'JS'
const server = require('http2').createServer();
server.on('stream', (stream, headers) => {
  stream.respond({ ':status': 200 });
  if (headers[':path'] === '/watch') setInterval(() => stream.write('event'), 600);
  else stream.end('answer');
});
server.listen(50051);
JS
program client.js <<'JS'
const connect = () => require('http2').connect('http://10.77.0.2:50051');
connect().request({ ':path': '/watch' }).on('data', () => {});
const session = connect();
setInterval(() => session.request({ ':path': '/get' }).on('data', () => {}), 200);
JS
start there node "$WORK/server.js"; listening there 50051
start here node "$WORK/client.js"
sleep 1; measure here
