#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Tell the network by ARP that this host has an address: announce.py DEVICE ADDRESS [AFTER S]"""
import socket
import struct
import sys
import time

device, address = sys.argv[1:3]
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
packets.bind((device, 0x0806))
link = packets.getsockname()[4]
address = socket.inet_aton(address)
# A request for its own address, which all hear (RFC 5227).
arp = struct.pack("!HHBBH", 1, 0x800, 6, 4, 1) + link + address + bytes(6) + address
time.sleep(float(sys.argv[3]) if len(sys.argv) > 3 else 0)
while True:
    packets.send(b"\xff" * 6 + link + b"\x08\x06" + arp)
    time.sleep(2.4)
