"""Programs that wait for ever, each in its own way, and programs that wait for nobody.

Prints a JSON object for each wait, with its own clock before and after it began, then `ready`.
Every function is a pair of processes on a port of its own: a server and a client.
"""

import json
import os
import select
import socket
import sys
import threading
import time

FOR_EVER = 600
PORT = 7000


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def sleep():
    time.sleep(FOR_EVER)


def listener(port, backlog=16):
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    sock.listen(backlog)
    return sock


def connect(port):
    return socket.create_connection(("127.0.0.1", port))


def watched(sock, events=select.EPOLLIN):
    loop = select.epoll()
    loop.register(sock, events)
    return loop


def tell(kind, port, begin, end=None, **more):
    line = {"kind": kind, "port": port, "pid": os.getpid(), "from": begin, "to": end or now()}
    line.update(more)
    os.write(1, (json.dumps(line) + "\n").encode())


def answers(port, count, answer=b"answer"):
    """Answer so many requests, and no more."""
    conn, _ = listener(port).accept()
    for _ in range(count):
        conn.recv(9999)
        conn.sendall(answer)
    return conn


# Servers.


def owes(conn, port):
    begin = now()
    conn.recv(9999)
    tell("service", port, begin)
    sleep()


def silent(port):
    conn, _ = listener(port).accept()
    owes(conn, port)


def reads_nothing(port):
    conn, _ = listener(port).accept()
    begin = now()
    select.select([conn], [], [])
    tell("read", port, begin)
    sleep()


def answers_five_then_hangs(port):
    conn = answers(port, 5)
    owes(conn, port)


def answers_five(port):
    conn = answers(port, 5)
    conn.recv(9999)


def answers_all(port):
    answers(port, 1 << 30)


def answers_and_sends_a_ticket(port):
    conn = answers(port, 5)
    time.sleep(0.05)
    conn.sendall(b"ticket" * 40)
    conn.recv(9999)


def reads_on(port):
    conn, _ = listener(port).accept()
    while conn.recv(9999):
        pass


def pushes(port):
    conn, _ = listener(port).accept()
    conn.recv(9999)
    for _ in range(10):
        conn.sendall(b"event")
        time.sleep(0.01)
    conn.recv(9999)
    sleep()


def pings(port):
    conn, _ = listener(port).accept()
    conn.recv(9999)
    conn.sendall(b"welcome")
    time.sleep(0.05)
    conn.sendall(b"ping")
    while conn.recv(9999):
        pass


def replicates(port):
    conn, _ = listener(port).accept()

    def stream():
        for _ in range(4):
            conn.sendall(b"log" * 400)
            time.sleep(0.02)

    threading.Thread(target=stream, daemon=True).start()
    while conn.recv(9999):
        pass


def accepts_nothing(port):
    sock = listener(port)
    sleep()
    sock.close()


def has_a_full_queue(port):
    sock = listener(port, 0)
    sleep()
    sock.close()


def accepts(port):
    conn, _ = listener(port).accept()
    conn.recv(9999)
    sleep()


# Clients that wait.


def asks_and_reads(port):
    conn = connect(port)
    begin = now()
    conn.sendall(b"question")
    tell("answer", port, begin)
    conn.recv(9)


def asks_and_polls(port):
    conn = connect(port)
    begin = now()
    conn.sendall(b"question")
    tell("answer", port, begin)
    select.select([conn], [], [])


def asks_in_a_loop(port):
    conn = connect(port)
    loop = watched(conn)
    begin = now()
    conn.sendall(b"question")
    tell("answer", port, begin)
    loop.poll()


def asks_with_a_large_body(port):
    conn = connect(port)
    loop = watched(conn)
    begin = now()
    conn.sendall(b"head")
    time.sleep(0.01)
    conn.sendall(b"x" * 60000)
    tell("answer", port, begin)
    loop.poll()


def asks_again_at_once(port):
    conn = connect(port)
    for _ in range(5):
        conn.sendall(b"question")
        conn.recv(9999)
    begin = now()
    conn.sendall(b"question")
    tell("answer", port, begin, pushed=True)
    conn.recv(9999)


def asks_again_at_once_in_a_loop(port):
    conn = connect(port)
    loop = watched(conn)
    for _ in range(5):
        conn.sendall(b"question")
        loop.poll()
        conn.recv(9999)
    begin = now()
    conn.sendall(b"question")
    tell("answer", port, begin, pushed=True)
    loop.poll()


def asks_after_a_pause(port):
    conn = connect(port)
    loop = watched(conn)
    for _ in range(5):
        conn.sendall(b"question")
        loop.poll()
        conn.recv(9999)
    time.sleep(0.1)
    begin = now()
    conn.sendall(b"question")
    tell("answer", port, begin, pushed=False)
    loop.poll()


def sends_until_it_blocks(port):
    conn = connect(port)
    tell("room", port, now(), now() + 2_000_000_000)
    while True:
        conn.sendall(b"x" * 65536)


def sends_until_it_polls(port):
    conn = connect(port)
    conn.setblocking(False)
    loop = watched(conn, select.EPOLLOUT)
    tell("room", port, now(), now() + 2_000_000_000)
    while True:
        loop.poll()
        try:
            conn.send(b"x" * 65536)
        except BlockingIOError:
            pass


def waits_for_a_greeting(port):
    begin = now()
    conn = connect(port)
    tell("greeting", port, begin)
    conn.recv(9)


def sends_to_a_late_reader(port):
    conn = connect(port)
    conn.sendall(b"hello")
    sleep()


def opens_three(port):
    begin = now()
    conns = [connect(port)]
    tell("accept", port, begin, count=3)
    conns += [connect(port) for _ in range(2)]
    sleep()


def connects_in_vain(port):
    begin = now()
    queued = connect(port)
    tell("accept", port, begin, count=1)
    conn = socket.socket()
    conn.setblocking(False)
    begin = now()
    conn.connect_ex(("127.0.0.1", port))
    tell("connect", port, begin)
    watched(conn, select.EPOLLOUT).poll()


def answers_a_ping(port):
    """Waits for a push. It looks as one that asked again at once, and is listed as both."""
    conn = connect(port)
    loop = watched(conn)
    conn.sendall(b"hello")
    for answer in (b"", b"pong"):
        loop.poll()
        conn.recv(9999)
        begin = now()
        conn.sendall(answer)
    tell("answer", port, begin, pushed=True)
    loop.poll()


# Clients that wait for nobody.


def keeps_a_pool(port):
    conn = connect(port)
    for _ in range(5):
        conn.sendall(b"question")
        conn.recv(9999)
    watched(conn).poll()


def keeps_a_pool_without_a_loop(port):
    conn = connect(port)
    for _ in range(5):
        conn.sendall(b"question")
        conn.recv(9999)
    sleep()


def subscribes(port):
    conn = connect(port)
    conn.sendall(b"subscribe")
    conn.recv(9999)
    conn.recv(9999)


def subscribes_and_stays_alive(port):
    conn = connect(port)
    loop = watched(conn)
    for _ in range(5):
        conn.sendall(b"alive?")
        loop.poll()
        conn.recv(9999)
        time.sleep(0.02)
    loop.poll()


def logs_in_a_loop(port):
    conn = connect(port)
    loop = watched(conn)
    for _ in range(30):
        conn.sendall(b"a line of a log\n")
        time.sleep(0.001)
    loop.poll()


def logs(port):
    conn = connect(port)
    for _ in range(30):
        conn.sendall(b"a line of a log\n")
        time.sleep(0.001)
    sleep()


def asks_and_does_not_care(port):
    conn = connect(port)
    conn.sendall(b"statistics")
    sleep()


def listens_to_events(port):
    conn = connect(port)
    conn.sendall(b"events, please")
    while conn.recv(9999):
        pass


def listens_half_closed(port):
    conn = connect(port)
    conn.sendall(b"events, please")
    conn.shutdown(socket.SHUT_WR)
    while conn.recv(9999):
        pass


def acknowledges_a_stream(port):
    conn = connect(port)
    # On a busy machine Nagle's algorithm would make few segments of many words.
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    loop = watched(conn)
    for _ in range(60):
        if loop.poll(0.005):
            conn.recv(9999)
        conn.sendall(b"acknowledged")
    loop.poll()


def connects_in_advance(port):
    conn = connect(port)
    watched(conn).poll()


PAIRS = [
    (silent, asks_and_reads),
    (silent, asks_and_polls),
    (silent, asks_in_a_loop),
    (reads_on, asks_with_a_large_body),
    (answers_five_then_hangs, asks_again_at_once),
    (answers_five_then_hangs, asks_again_at_once_in_a_loop),
    (answers_five_then_hangs, asks_after_a_pause),
    (reads_nothing, sends_until_it_blocks),
    (reads_nothing, sends_until_it_polls),
    (accepts, waits_for_a_greeting),
    (reads_nothing, sends_to_a_late_reader),
    (accepts_nothing, opens_three),
    (has_a_full_queue, connects_in_vain),
    (pings, answers_a_ping),
    (answers_five, keeps_a_pool),
    (answers_five, keeps_a_pool_without_a_loop),
    (answers_and_sends_a_ticket, keeps_a_pool),
    (answers_all, subscribes),
    (answers_all, subscribes_and_stays_alive),
    (reads_on, logs_in_a_loop),
    (reads_on, logs),
    (reads_on, asks_and_does_not_care),
    (pushes, listens_to_events),
    (pushes, listens_half_closed),
    (replicates, acknowledges_a_stream),
    (accepts, connects_in_advance),
]


def fork(program, port):
    if os.fork() == 0:
        try:
            program(port)
            sleep()
        except Exception as error:
            print(program.__name__, error, file=sys.stderr)
        os._exit(1)


for number, (server, client) in enumerate(PAIRS):
    fork(server, PORT + number)
    time.sleep(0.02)
    for _ in range(200):
        if ":%04X" % (PORT + number) in open("/proc/net/tcp").read():
            break
        time.sleep(0.01)
    fork(client, PORT + number)
time.sleep(1)
print("ready", flush=True)
sleep()
