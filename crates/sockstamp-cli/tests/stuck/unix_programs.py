"""Programs that wait at Unix sockets for ever, and others that wait for nobody. Each prints what it
waits for, and since when, as a line of JSON; "ready" follows when all have begun."""

import json, os, select, signal, socket, sys, threading, time

FOLDER = sys.argv[1]
PROGRAMS = []


def path(name):
    return f"{FOLDER}/{name}"


def program(run):
    PROGRAMS.append(run)
    return run


def announce(kind, name, **more):
    wait = {"kind": kind, "path": path(name), "pid": os.getpid(), "since": time.monotonic_ns()}
    sys.stdout.write(json.dumps(wait | more) + "\n")
    sys.stdout.flush()


def listening(name, kind=socket.SOCK_STREAM, backlog=8):
    listener = socket.socket(socket.AF_UNIX, kind)
    listener.bind(path(name))
    if kind != socket.SOCK_DGRAM:
        listener.listen(backlog)
    return listener


def connected(name, kind=socket.SOCK_STREAM):
    client = socket.socket(socket.AF_UNIX, kind)
    client.connect(path(name))
    return client


def fork(run, *arguments):
    pid = os.fork()
    if pid == 0:
        try:
            run(*arguments)
        finally:
            os._exit(0)
    return pid


def forever():
    while True:
        time.sleep(1000)


def wait_for(condition):
    while not condition():
        time.sleep(0.01)


def state(pid):
    return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]


def with_threads(listener, serve):
    while True:
        client = listener.accept()[0]
        threading.Thread(target=serve, args=(client,), daemon=True).start()


def with_events(listener, serve):
    """One event loop for all clients."""
    loop = select.epoll()
    loop.register(listener, select.EPOLLIN)
    clients = {}
    while True:
        for descriptor, _ in loop.poll():
            if descriptor == listener.fileno():
                client = listener.accept()[0]
                clients[client.fileno()] = client
                loop.register(client, select.EPOLLIN)
            elif not serve(clients[descriptor], clients[descriptor].recv(4096)):
                loop.unregister(descriptor)


def asks(name, service, **more):
    client = connected(name)
    client.sendall(b"question")
    announce("answer", name, server=service, **more)
    client.recv(99)
    forever()


@program
def worker_that_works():
    """A worker has read the question, and does something else."""

    def serve(client):
        client.recv(99)
        forever()

    service = fork(with_threads, listening("worker"), serve)
    fork(asks, "worker", service)


@program
def loop_that_is_busy():
    """An event loop has read the question, and sleeps for another reason."""
    service = fork(with_events, listening("loop"), lambda client, question: forever())
    fork(asks, "loop", service)


@program
def service_that_is_stopped():
    listener = listening("stopped")

    def serve():
        kept = listener.accept()
        os.kill(os.getpid(), signal.SIGSTOP)

    def polls():
        client = connected("stopped")
        wait_for(lambda: state(service) == "T")
        client.sendall(b"question")
        announce("answer", "stopped", server=service, state="stopped", bound=True)
        poll = select.poll()
        poll.register(client, select.POLLIN)
        poll.poll()

    service = fork(serve)
    fork(polls)


@program
def listener_that_does_not_accept():
    listener = listening("full", backlog=1)
    clients = [connected("full") for _ in range(2)]

    def connects():
        announce("connect", "full", server=service, bound=True)
        connected("full")

    def never_accepts():
        announce("accept", "full", bound=True, count=2)
        clients
        forever()

    service = fork(never_accepts)
    listener.close()
    fork(connects)


@program
def reader_that_does_not_read():
    listener = listening("reader")

    def serve():
        kept = listener.accept()
        forever()

    def sends():
        client = connected("reader")
        client.setblocking(False)
        try:
            while True:
                client.send(b"x" * 4096)
        except BlockingIOError:
            client.setblocking(True)
        announce("room", "reader", server=service, bound=True)
        client.sendall(b"x" * 4096)

    service = fork(serve)
    fork(sends)


@program
def log_that_hangs():
    reader = listening("log", socket.SOCK_DGRAM)
    service = fork(forever)
    reader.close()

    def sends():
        log = connected("log", socket.SOCK_DGRAM)
        log.setblocking(False)
        try:
            while True:
                log.send(b"line")
        except BlockingIOError:
            log.setblocking(True)
        announce("room", "log", server=service, bound=True)
        log.send(b"line")

    fork(sends)


@program
def idle_pool():
    fork(with_threads, listening("pool"), lambda client: client.recv(99))
    fork(lambda: (connected("pool"), forever()))


@program
def subscriber_of_a_loop():
    fork(with_events, listening("news"), lambda client, question: client.send(b"subscribed"))

    def subscribes():
        client = connected("news")
        client.sendall(b"subscribe")
        client.recv(99)
        client.recv(99)

    fork(subscribes)


@program
def subscriber_of_a_worker():
    """The worker waits for what comes next, too."""
    fork(with_threads, listening("events"), lambda client: client.recv(99))

    def polls():
        client = connected("events")
        poll = select.poll()
        poll.register(client, select.POLLIN)
        poll.poll()

    fork(polls)


@program
def subscriber_of_a_busy_loop():
    """The loop answers another client most of the time."""
    fork(with_events, listening("busy"), lambda client, question: client.send(b"answer"))

    def keeps_it_busy():
        client = connected("busy")
        while True:
            client.send(b"question")
            client.recv(99)

    def subscribes():
        client = connected("busy")
        client.sendall(b"subscribe")
        client.recv(6)
        client.recv(99)

    fork(subscribes)
    fork(keeps_it_busy)


@program
def notices_that_are_read():
    reader = listening("notify", socket.SOCK_DGRAM)
    fork(lambda: [reader.recv(99) for _ in range(9)])

    def notifies():
        connected("notify", socket.SOCK_DGRAM).send(b"READY=1")
        forever()

    fork(notifies)


@program
def pair_of_a_parent_and_its_child():
    parent, child = socket.socketpair()
    fork(lambda: parent.recv(99))
    fork(lambda: (child, forever()))


for run in PROGRAMS:
    run()
print("ready", flush=True)
forever()
