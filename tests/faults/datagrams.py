#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Questions over UDP: datagrams.py serve|ask ADDRESS PORT [--lose N] [--sleepy]"""
import argparse
import select
import socket
import time

words = argparse.ArgumentParser()
words.add_argument("part", choices=["serve", "ask"])
words.add_argument("address")
words.add_argument("port", type=int)
words.add_argument("--lose", type=int, default=0, help="serve: one question in so many")
words.add_argument("--sleepy", action="store_true", help="serve: answer the second of two alike")
given = words.parse_args()
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
service = (given.address, given.port)


def serve():
    datagrams.bind(service)
    count, last = 0, b""
    while True:
        question, peer = datagrams.recvfrom(1500)
        count += 1
        lost = given.lose and count % given.lose == 0
        lost = lost or given.sleepy and question != last
        last = question
        if not lost:
            datagrams.sendto(b"answer to " + question, peer)


def ask():
    datagrams.connect(service)
    count = 0
    while True:
        count += 1
        for _ in range(3):
            datagrams.send(b"question %06d" % count)
            if select.select([datagrams], [], [], 0.5)[0]:
                datagrams.recv(1500)
                break
        time.sleep(0.05)


{"serve": serve, "ask": ask}[given.part]()
