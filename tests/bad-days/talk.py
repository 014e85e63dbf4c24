# SPDX-License-Identifier: GPL-2.0-only
"""Requests and answers of 100 bytes over TCP, until SIGINT; print the number of sends and of reads.

talk.py [PAUSE] [--udp] [--v6] [--connections N]
"""
import argparse
import signal
import socket
import sys
import threading
import time

options = argparse.ArgumentParser()
options.add_argument("pause", type=float, nargs="?", default=0.002)
options.add_argument("--v6", action="store_true")
options.add_argument("--connections", type=int, default=1)
options = options.parse_args()
ended = threading.Event()
signal.signal(signal.SIGINT, lambda *_: ended.set())
counts = {"sent": 0, "read": 0}
lock = threading.Lock()


def exchange(one, other):
    """Each call is a message: a read gets what one send sent."""
    one.sendall(bytes(100))
    got = len(other.recv(4096))
    assert got == 100, got
    with lock:
        counts["sent"] += 1
        counts["read"] += 1


def talk(listener):
    client = socket.create_connection(listener.getsockname()[:2])
    with lock:
        pass
    server, _ = listener.accept()
    while not ended.is_set():
        exchange(client, server)
        exchange(server, client)
        ended.wait(options.pause)
    client.close()
    server.close()


family, address = (socket.AF_INET6, "::1") if options.v6 else (socket.AF_INET, "127.0.0.1")
threads = []
for _ in range(options.connections):
    listener = socket.create_server((address, 0), family=family)
    threads.append(threading.Thread(target=talk, args=(listener,)))
    threads[-1].start()
print("talking", file=sys.stderr, flush=True)
while not ended.is_set():
    time.sleep(0.05)
for thread in threads:
    thread.join()
print(counts["sent"], counts["read"], flush=True)
