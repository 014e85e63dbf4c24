"""Processes that share a socket, and a task that takes another name: a line per send, with its bytes,
process and name. Arguments: the protocol, the address, the port."""

import ctypes
import fcntl
import os
import socket
import sys
import termios
import time

prctl = ctypes.CDLL(None).prctl
kind = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}[sys.argv[1]]
shared = socket.socket(socket.AF_INET, kind)
shared.connect((sys.argv[2], int(sys.argv[3])))
if kind == socket.SOCK_STREAM:
    shared.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def named(name):
    prctl(15, name.encode(), 0, 0, 0)  # PR_SET_NAME
    return name


def send(length, name):
    shared.send(b"x" * length)
    os.write(1, f"{length} {os.getpid()} {name}\n".encode())


child = os.fork()
name = named("alice" if child else "bob")
time.sleep(0.1 if child else 0.105)
for place in range(5):
    send((300 if child else 200) + place, name)
    time.sleep(0.02)
if child:
    os.wait()
    send(401, named("before"))
    send(402, named("after"))
    # SIOCOUTQ of tcp(7) and udp(7): the last one is acknowledged, or has left.
    while fcntl.ioctl(shared, termios.TIOCOUTQ, bytes(4)) != bytes(4):
        time.sleep(0.01)
