# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: five people chat by a stream of HTTP/2 each, as of gRPC, which they have opened before.
# Say: ^$
# Needs: node
. ./lib.sh || exit 1
pair
cat >"$WORK/server.js" <<'JS'
const http2 = require('http2');
const people = new Set();
const server = http2.createServer();
server.on('stream', stream => {
	stream.respond({':status': 200, 'content-type': 'application/grpc'});
	people.add(stream);
	stream.on('data', said => {
		for (const one of people) if (one !== stream) one.write(said);
	});
	stream.on('close', () => people.delete(stream));
	stream.on('error', () => {});
});
server.listen(50051, '10.77.0.2');
JS
start there node "$WORK/server.js"; listening there 50051
cat >"$WORK/people.js" <<'JS'
const http2 = require('http2');
for (let of = 0; of < 5; of++) {
	const stream = http2.connect('http://10.77.0.2:50051').request({
		':method': 'POST', ':path': '/chat.Chat/Talk', 'content-type': 'application/grpc'});
	stream.on('data', () => {});
	const say = () => {
		const length = 10 + Math.floor(Math.random() * 100);
		const said = Buffer.alloc(5 + length, 65);
		said.writeUInt8(0, 0);
		said.writeUInt32BE(length, 1);
		stream.write(said);
		setTimeout(say, 500 + Math.random() * 2000);
	};
	setTimeout(say, 500 + Math.random() * 500);
}
JS
start here node "$WORK/people.js"
sleep 2; SECONDS_OF_ONE=8; measure there
