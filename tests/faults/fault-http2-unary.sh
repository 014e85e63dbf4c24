# SPDX-License-Identifier: GPL-2.0-only
# True: A service over HTTP/2 takes 90 ms for each call.
# Say: 10.77.0.2:50051 takes
# Needs: node
. ./lib.sh || exit 1
pair
program server.js <<'JS'
const server = require('http2').createServer();
server.on('stream', (stream) => {
  stream.resume();
  const answer = () => { stream.respond({ ':status': 200 }); stream.end('answer'); };
  stream.on('end', () => setTimeout(answer, 90));
});
server.listen(50051);
JS
program client.js <<'JS'
const session = require('http2').connect('http://10.77.0.2:50051');
function call() {
  const stream = session.request({ ':path': '/svc/Get', ':method': 'POST' });
  stream.on('data', () => {});
  stream.on('end', () => setTimeout(call, 150));
  stream.end('question');
}
call();
JS
start there node "$WORK/server.js"; listening there 50051
start here node "$WORK/client.js"
sleep 1; measure here
