#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Requests of a line and answers of some bytes: peer.py serve|ask ADDRESS PORT [--delay S] ..."""
import argparse
import socket
import threading
import time

words = argparse.ArgumentParser()
words.add_argument("part", choices=["serve", "ask"])
words.add_argument("address")
words.add_argument("port", type=int)
words.add_argument("--delay", type=float, default=0, help="serve: before each answer")
words.add_argument("--lock", action="store_true", help="serve: one request at a time")
words.add_argument("--spin", action="store_true", help="serve: the delay is work")
words.add_argument("--late", type=float, default=0, help="serve: between two accepts")
words.add_argument("--backlog", type=int, default=128, help="serve: connections not accepted")
words.add_argument("--size", type=int, default=200, help="bytes of an answer")
words.add_argument("--connections", type=int, default=4, help="ask")
words.add_argument("--pause", type=float, default=0.2, help="ask: before each request")
words.add_argument("--new", action="store_true", help="ask: a connection for each request")
words.add_argument("--timeout", type=float, default=30, help="ask: for an answer")
words.add_argument("--write", type=int, default=0, help="ask: bytes of a request")
words.add_argument("--reading", type=float, default=0, help="ask: seconds for 64 KB of an answer")
given = words.parse_args()
held = threading.Lock()


def work():
    end = time.monotonic() + given.delay
    if not given.spin:
        time.sleep(given.delay)
    while time.monotonic() < end:
        pass


def serve(peer):
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    lines = peer.makefile("rb")
    while lines.readline():
        if given.lock:
            with held:
                work()
        else:
            work()
        peer.sendall(b"." * (given.size - 1) + b"\n")


def listen():
    listener = socket.create_server((given.address, given.port), backlog=given.backlog)
    while True:
        peer, _ = listener.accept()
        threading.Thread(target=serve, args=(peer,), daemon=True).start()
        time.sleep(given.late)


def read(answer):
    rest = given.size
    while rest:
        got = answer.read(min(rest, 65536))
        if not got:
            raise ConnectionError
        rest -= len(got)
        time.sleep(given.reading)


def ask(place):
    server = None
    time.sleep(given.pause * place / given.connections)
    while True:
        time.sleep(given.pause)
        try:
            if server is None:
                to = (given.address, given.port)
                server = socket.create_connection(to, timeout=given.timeout)
                server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                answer = server.makefile("rb")
            server.sendall(b"." * given.write + b"\n")
            read(answer)
            if given.new:
                raise ConnectionError
        except OSError:
            if server is not None:
                server.close()
            server = None


if given.part == "serve":
    listen()
for place in range(given.connections):
    threading.Thread(target=ask, args=(place,), daemon=True).start()
time.sleep(1000)
