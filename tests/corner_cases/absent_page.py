# SPDX-License-Identifier: GPL-2.0-only
"""absent_page.py PORT [FILE]: a service of one connection that answers late. With FILE it sleeps in
poll(2) after a few answers, and what it polls is in a page of FILE, on a file system of its own
(fuse(4)) that never gives the page; its server's number is printed. Until that server ends, this
process does not. For root, in a mount namespace of its own."""
import ctypes
import os
import socket
import struct
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
INIT, GETATTR, OPEN = 26, 3, 14
PAGE, READ_WRITE, PRIVATE, FIXED, ANONYMOUS = 4096, 3, 2, 0x10, 0x20


def serve(device):
    """Answer what opens a file of one page, and no read of it."""
    attributes = struct.pack("6Q10I", 1, PAGE, 8, 0, 0, 0, 0, 0, 0, 0o100644, 1, 0, 0, 0, PAGE, 0)
    answers = {
        INIT: struct.pack("4I2H2I2HI28x", 7, 31, 0, 0, 1, 1, PAGE, 1, 1, 0, 0),
        GETATTR: struct.pack("QII", 1000, 0, 0) + attributes,
        OPEN: struct.pack("QII", 1, 0, 0),
    }
    while True:
        _, code, unique = struct.unpack_from("IIQ", os.read(device, 1 << 20))
        if code in answers:
            body = answers[code]
            os.write(device, struct.pack("IiQ", 16 + len(body), 0, unique) + body)


def mount(file):
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=100644,user_id=0,group_id=0"
    assert libc.mount(b"absent", file.encode(), b"fuse", 0, options.encode()) == 0
    server = os.fork()
    if server == 0:
        serve(device)
    os.close(device)
    assert os.stat(file).st_size == PAGE
    return server


def page(place, flags, file):
    place, size = ctypes.c_void_p(place), ctypes.c_size_t(PAGE)
    found = libc.mmap(place, size, READ_WRITE, PRIVATE | flags, file, 0)
    assert found != ctypes.c_void_p(-1).value, os.strerror(ctypes.get_errno())
    return found


def answer(connection):
    connection.recv(100)
    time.sleep(0.2)
    connection.sendall(b"x")


file = sys.argv[2] if len(sys.argv) > 2 else None
server = mount(file) if file else None
connection, _ = socket.create_server(("127.0.0.1", int(sys.argv[1]))).accept()
while not file:
    answer(connection)
for _ in range(3):
    answer(connection)
polled = page(None, ANONYMOUS, -1)
ctypes.memmove(polled, struct.pack("ihh", connection.fileno(), 1, 0), 8)
poll = (ctypes.c_void_p(polled), ctypes.c_ulong(1), -1)
threading.Thread(target=libc.poll, args=poll, daemon=True).start()
time.sleep(0.1)
page(polled, FIXED, os.open(file, os.O_RDWR))
print("served by", server, flush=True)
time.sleep(1000)
