# SPDX-License-Identifier: GPL-2.0-only
# True: Nothing is wrong: six people chat by MQTT, and confirm what the broker sends them.
# Say: ^$
# Needs: mosquitto
. ./lib.sh || exit 1
pair --delay 0.01
printf 'listener 1883 10.77.0.2\nallow_anonymous true\nset_tcp_nodelay true\n' >"$WORK/mosquitto.conf"
start there mosquitto -c "$WORK/mosquitto.conf"; BROKER=$LAST; listening there 1883
program people.py <<'PY'
import random, socket, threading, time
def packet(kind, body):
    return bytes([kind, len(body)]) + body
def text(words):
    return len(words).to_bytes(2, "big") + words
def person(number):
    broker = socket.create_connection(("10.77.0.2", 1883))
    name = b"person%d" % number
    broker.sendall(packet(0x10, text(b"MQTT") + b"\x04\x02\x00\x3c" + text(name)))
    stream = broker.makefile("rb")
    def take():
        kind, length = stream.read(2)
        return kind, stream.read(length)
    take()
    broker.sendall(packet(0x82, b"\x00\x01" + text(b"chat") + b"\x01"))
    take()
    def read():
        while True:
            kind, body = take()
            if kind >> 4 == 3:
                topic = int.from_bytes(body[:2], "big")
                broker.sendall(packet(0x40, body[2 + topic:4 + topic]))
    threading.Thread(target=read).start()
    for of in range(2, 60000):
        time.sleep(random.uniform(1, 9))
        broker.sendall(packet(0x32, text(b"chat") + of.to_bytes(2, "big") + b"hello"))
for number in range(6):
    threading.Thread(target=person, args=(number,)).start()
PY
start here python3 "$WORK/people.py"; PEOPLE=$LAST
sleep 2; SECONDS_OF_ONE=10 measure here -p "$PEOPLE"; SECONDS_OF_ONE=10 measure there -p "$BROKER"
