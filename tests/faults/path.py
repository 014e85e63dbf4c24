#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A path between the hosts here (10.77.0.1) and there (10.77.0.2): path.py [--delay S] [--loss P] ...

Two TUN devices named wan, and this process between them; `ready` on standard output when it forwards.
"""
import argparse
import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import time

words = argparse.ArgumentParser()
words.add_argument("--delay", type=float, default=0, help="seconds, each way")
words.add_argument("--loss", type=float, default=0, help="of packets on the way there")
words.add_argument("--loss-back", type=float, default=0, help="of packets on the way back")
words.add_argument("--synack-loss", type=float, default=0, help="of answers to SYNs, there")
words.add_argument("--most", type=int, default=65535, help="longer packets vanish on the way there")
words.add_argument("--rate", type=float, default=0, help="bytes a second on the way there")
words.add_argument("--overtake", type=float, default=0, help="of packets, later ones overtake them")
words.add_argument("--corrupt", type=float, default=0, help="of packets with data, there: a bit")
words.add_argument("--no-ecn", action="store_true", help="SYNs that ask for ECN vanish")
words.add_argument("--whole", action="store_true", help="later fragments vanish on the way back")
words.add_argument("--by", type=float, default=0.005, help="seconds by which they are overtaken")
given = words.parse_args()

TUNSETIFF, IFF_TUN, IFF_NO_PI, CLONE_NEWNET = 0x400454CA, 0x0001, 0x1000, 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def tun(host, address):
    namespace = os.open(f"/run/netns/{host}", os.O_RDONLY)
    if libc.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"wan", IFF_TUN | IFF_NO_PI))
    subprocess.run(["ip", "addr", "add", address, "dev", "wan"], check=True)
    subprocess.run(["ip", "link", "set", "wan", "up"], check=True)
    return device


def is_synack(packet):
    ipv4, header, tcp = packet[0] >> 4 == 4, (packet[0] & 15) * 4, packet[9] == 6
    return ipv4 and tcp and packet[header + 13] & 0x12 == 0x12


def asks_ecn(packet):
    """A SYN with ECE and CWR: RFC 3168, 6.1.1."""
    ipv4, header, tcp = packet[0] >> 4 == 4, (packet[0] & 15) * 4, packet[9] == 6
    return ipv4 and tcp and packet[header + 13] & 0xC2 == 0xC2


def is_later_fragment(packet):
    """One with an offset: RFC 791, 3.1."""
    return packet[0] >> 4 == 4 and int.from_bytes(packet[6:8], "big") & 0x1FFF


def corrupted(packet):
    """Change the last byte of a packet with data, which its checksum covers."""
    is_data = len(packet) > 80 and random.random() < given.corrupt
    return packet[:-1] + bytes([packet[-1] ^ 1]) if is_data else packet


ends = [tun("here", "10.77.0.1/24"), tun("there", "10.77.0.2/24")]
print("ready", flush=True)
packets, count, free = [], 0, 0.0
while True:
    wait = max(0, packets[0][0] - time.monotonic()) if packets else None
    for device in select.select(ends, [], [], wait)[0]:
        packet = os.read(device, 65536)
        there = device == ends[0]
        loss = given.loss if there else given.loss_back
        if not there and is_synack(packet):
            loss = given.synack_loss
        if given.no_ecn and asks_ecn(packet):
            continue
        if given.whole and not there and is_later_fragment(packet):
            continue
        if there and len(packet) > given.most or random.random() < loss:
            continue
        if there:
            packet = corrupted(packet)
        now = time.monotonic()
        if there and given.rate:
            free = max(free, now) + len(packet) / given.rate
            now = free
        if random.random() < given.overtake:
            now += given.by
        count += 1
        heapq.heappush(packets, (now + given.delay, count, ends[1 if there else 0], packet))
    while packets and packets[0][0] <= time.monotonic():
        _, _, device, packet = heapq.heappop(packets)
        try:
            os.write(device, packet)
        except OSError:
            pass  # a device that is full or gone loses packets
