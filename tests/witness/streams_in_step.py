"""One end of a connection that begins without a handshake, at chosen sequence numbers (TCP_REPAIR):
streams_in_step.py OWN PORT PEER PORT SEND_AT RECEIVE_AT SEED FOLDER. Once the file `begin` is in the
folder, it sends and reads messages whose lengths the seed chooses, and more of them once `go_on` is.
It prints the lengths of its sends and reads of both halves."""

import fcntl
import json
import os
import random
import socket
import struct
import sys
import termios
import threading
import time

TCP_REPAIR, TCP_REPAIR_QUEUE, TCP_QUEUE_SEQ, TCP_REPAIR_OPTIONS = 19, 20, 21, 22
RECEIVE_QUEUE, SEND_QUEUE = 1, 2
OPTION_MSS, OPTION_WINDOW = 2, 3
HALVES = [600_000, 5_400_000]

own, own_port, peer, peer_port, send_at, receive_at, seed, folder = sys.argv[1:]
connection = socket.socket()


def set_option(option, value):
    connection.setsockopt(socket.IPPROTO_TCP, option, value)


def wait_for(name):
    while not os.path.exists(os.path.join(folder, name)):
        time.sleep(0.01)


def connect():
    set_option(TCP_REPAIR, 1)
    connection.bind((own, int(own_port)))
    for queue, sequence in (SEND_QUEUE, send_at), (RECEIVE_QUEUE, receive_at):
        set_option(TCP_REPAIR_QUEUE, queue)
        set_option(TCP_QUEUE_SEQ, struct.pack("I", int(sequence)))
    connection.connect((peer, int(peer_port)))
    options = OPTION_MSS, 1448, OPTION_WINDOW, 7 | 7 << 16
    set_option(TCP_REPAIR_OPTIONS, struct.pack("4I", *options))


def send(total, lengths):
    sent = []
    while sum(sent) < total:
        length = min(lengths.choice([100, 1_000, 1_448, 20_000, 150_000]), total - sum(sent))
        connection.sendall(bytes(length))
        sent.append(length)
    return sent


def read(total, lengths):
    got = []
    while sum(got) < total:
        most = min(lengths.choice([500, 9_000, 70_000]), total - sum(got))
        got.append(len(connection.recv(most)))
    return got


def half(total):
    sent = []
    sender = threading.Thread(target=lambda: sent.extend(send(total, random.Random(seed))))
    sender.start()
    got = read(total, random.Random(seed + "read"))
    sender.join()
    return {"sent": sent, "read": got}


connect()
print("connected", flush=True)
wait_for("begin")
set_option(TCP_REPAIR, 0)
halves = [half(HALVES[0])]
print("half", flush=True)
wait_for("go_on")
halves.append(half(HALVES[1]))
# SIOCOUTQ of tcp(7): the last bytes are acknowledged.
while fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)) != bytes(4):
    time.sleep(0.01)
print(json.dumps(halves), flush=True)
