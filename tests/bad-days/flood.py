# SPDX-License-Identifier: GPL-2.0-only
"""flood.py SECONDS: connections with a request and an answer, and others that are refused, each from
an IPv6 address that was not used before. Print the number of sends and of reads."""
import itertools
import random
import socket
import sys
import time

sent = read = 0
listener = socket.create_server(("2001:db8::1", 9000), family=socket.AF_INET6, backlog=64)
end = time.monotonic() + float(sys.argv[1])
for number in itertools.count(2):
    if time.monotonic() > end:
        break
    address = f"2001:db8::{random.getrandbits(16):x}:{number >> 16:x}:{number & 0xffff:x}"
    with socket.socket(socket.AF_INET6) as client:
        client.bind((address, 0))
        client.connect(("2001:db8::1", 9000))
        server, _ = listener.accept()
        with server:
            client.sendall(bytes(100))
            assert len(server.recv(1000)) == 100
            server.sendall(bytes(100))
            assert len(client.recv(1000)) == 100
    sent, read = sent + 2, read + 2
    # Refused: nothing listens there.
    with socket.socket(socket.AF_INET6) as client:
        client.bind((address, 0))
        client.setblocking(False)
        client.connect_ex(("2001:db8::1", 9002))
print(sent, read, flush=True)
