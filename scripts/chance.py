#!/usr/bin/env python3
"""Measure how often `diff` and `explain` take chance for a change, and whether they name planted faults.

    sudo unshare -n python3 scripts/chance.py record SOCKSTAMP DIRECTORY --load redis --seconds 2 --recordings 31
    sudo unshare -n python3 scripts/chance.py plant SOCKSTAMP DIRECTORY --factor 100 --seconds 5 --trials 20
    python3 scripts/chance.py judge SOCKSTAMP DIRECTORY/redis-2s DIRECTORY/redis-10s
    python3 scripts/chance.py alarms SOCKSTAMP DIRECTORY/redis-2s --each 1 --each 3
    python3 scripts/chance.py faults SOCKSTAMP DIRECTORY/x100-5s

`record` makes a chain of recordings of the same load, whose server and client start anew for each. Neighbours in
the chain are pairs in which nothing has changed: `judge` counts those of which anything is claimed. `alarms` draws
several recordings for both sides. `plant` makes recordings of a service that takes a millisecond for an answer, of
one that takes so many times as long for some of them, and of one that does so for all.
"""

import argparse
import contextlib
import json
import math
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

REDIS = 7001
NGINX = 7002
SERVICE = 7003
CLIENTS = 12
# Time for the clients to reach their pace.
SETTLING = 0.5
# Answers of the service that a fault delays.
DELAYED = 0.03


# The loads: each is a server and its client, until the context ends.


@contextlib.contextmanager
def running(*command):
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **silent, start_new_session=True) as process:
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def wait_for(port):
    for _ in range(1000):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.01)
    sys.exit(f"nothing listens on port {port}")


@contextlib.contextmanager
def redis_server():
    with running("redis-server", "--port", str(REDIS), "--save", "", "--appendonly", "no"):
        wait_for(REDIS)
        yield


@contextlib.contextmanager
def redis():
    with redis_server(), running("redis-benchmark", "-p", str(REDIS), "-c", "25", "-t", "get", "-l", "-q"):
        yield


@contextlib.contextmanager
def nginx():
    with tempfile.TemporaryDirectory() as root:
        os.chmod(root, 0o755)
        with open(f"{root}/index.html", "w", encoding="ascii") as page:
            page.write("x" * 10_000)
        with open(f"{root}/nginx.conf", "w", encoding="ascii") as settings:
            settings.write(
                f"daemon off; worker_processes 1; pid {root}/pid; error_log {root}/errors;\n"
                "events { worker_connections 256; }\n"
                f"http {{ access_log off; server {{ listen 127.0.0.1:{NGINX}; root {root}; }} }}\n"
            )
        with running("nginx", "-c", f"{root}/nginx.conf"):
            wait_for(NGINX)
            address = f"http://127.0.0.1:{NGINX}/"
            with running("wrk", "-t", "1", "-c", str(CLIENTS), "-d", "600", address):
                yield


@contextlib.contextmanager
def chatty():
    """A service that asks Redis several questions for each of its answers."""
    with redis_server(), service(0, 1, 0), clients():
        yield


@contextlib.contextmanager
def service(work, factor, part):
    """Take this many seconds for an answer; a part of them takes so many times longer."""
    with running(sys.executable, __file__, "serve", str(work), str(factor), str(part)):
        wait_for(SERVICE)
        yield


@contextlib.contextmanager
def clients():
    with running(sys.executable, __file__, "ask"):
        yield


LOADS = {"redis": (redis, REDIS), "nginx": (nginx, NGINX), "chatty": (chatty, SERVICE)}


def serve(work, factor, part):
    with socket.create_server(("127.0.0.1", SERVICE), backlog=64) as listener:
        while True:
            client = listener.accept()[0]
            threading.Thread(target=answers, args=(client, work, factor, part), daemon=True).start()


def answers(client, work, factor, part):
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    backend = socket.create_connection(("127.0.0.1", REDIS)) if work == 0 else None
    while client.recv(4096):
        if backend is not None:
            for _ in range(3):
                backend.sendall(b"GET key\r\n")
                backend.recv(4096)
        else:
            time.sleep(work * factor if random.random() < part else work)
        client.sendall(b"a" * 300)


def ask():
    for _ in range(CLIENTS):
        threading.Thread(target=questions, daemon=True).start()
    signal.pause()


def questions():
    with socket.create_connection(("127.0.0.1", SERVICE)) as server:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            time.sleep(random.expovariate(1 / 0.01))
            server.sendall(b"q" * 100)
            server.recv(4096)


# Recordings.


def record(sockstamp, file, port, seconds):
    time.sleep(SETTLING)
    ours = ["--netns", str(os.getpid()), "tcp", "port", str(port)]
    command = [sockstamp, "record", "--duration", str(seconds), "-o", file, *ours]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


def chain(options):
    load, port = LOADS[options.load]
    folder = f"{options.directory}/{options.load}-{options.seconds}s"
    os.makedirs(folder, exist_ok=True)
    for number in range(options.recordings):
        with load():
            record(options.sockstamp, f"{folder}/{number:03}.parquet", port, options.seconds)


def plant(options):
    folder = f"{options.directory}/x{options.factor:g}-{options.seconds}s"
    os.makedirs(folder, exist_ok=True)
    for trial in range(options.trials):
        for name, factor, part in [("before", 1, 0), ("after", options.factor, DELAYED), ("all", options.factor, 1)]:
            with service(options.work, factor, part), clients():
                record(options.sockstamp, f"{folder}/{trial:03}-{name}.parquet", SERVICE, options.seconds)


# Judgements.


def told(sockstamp, *arguments):
    output = subprocess.run([sockstamp, *arguments, "--format", "json"], check=True, capture_output=True)
    return json.loads(output.stdout)


def recordings(folder):
    return sorted(f"{folder}/{name}" for name in os.listdir(folder) if name.endswith(".parquet"))


def wilson(count, of):
    """Return the interval of 95 % of a share (Wilson, 1927), in percent."""
    z = 1.96
    middle = (count + z * z / 2) / (of + z * z)
    margin = z / (of + z * z) * math.sqrt(count * (of - count) / of + z * z / 4)
    return 100 * max(0, middle - margin), 100 * (middle + margin)


def rate(count, of):
    least, most = wilson(count, of)
    return f"{count:3} of {of} ({100 * count / of:.1f} %, {least:.1f} to {most:.1f})"


def changes(sockstamp, before, after):
    """Return the rows that are found, those of which `--fail-if 'STAGE.pN > +20%'` holds, and their number."""
    compared = told(sockstamp, "diff", "--before", *before, "--after", *after)["changes"]
    found = [row for row in compared if row["beyond_chance"] and row["matters"]]
    failed = [row for row in compared if row["interval"] and row["interval"][0] > 0.2]
    return found, failed, len(compared)


def shares(sockstamp, file):
    """Return the share of each component with its margin, by kind and name."""
    explanations = told(sockstamp, "explain", "-r", file)["explanations"]
    return {
        (one["kind"], component["stage"], component["part"]): (component["share"], component["margin"])
        for one in explanations
        if not one["without_former"]
        for component in one["components"]
    }


def strays(one, other):
    """Return the components whose share lies outside the interval of another recording."""
    both = one.keys() & other.keys()
    return [
        name
        for name in sorted(both, key=str)
        if one[name][1] is not None and abs(other[name][0] - one[name][0]) > one[name][1] + 1e-9
    ]


def judge(options):
    sums = {}
    for folder in options.folders:
        files = recordings(folder)
        explained = [shares(options.sockstamp, file) for file in files]
        counts = {"diff": 0, "--fail-if": 0, "shares": 0, "any": 0}
        for number, pair in enumerate(zip(files, files[1:])):
            found, failed, _ = changes(options.sockstamp, pair[:1], pair[1:])
            stray = strays(*explained[number : number + 2])
            for name, claims in [("diff", found), ("--fail-if", failed), ("shares", stray)]:
                counts[name] += bool(claims)
                if claims and options.verbose:
                    print(f"  {pair[0]} {name}: {claims}")
            counts["any"] += bool(found or failed or stray)
        for name, count in counts.items():
            print(f"{os.path.basename(folder):12} {name:10} {rate(count, len(files) - 1)}", flush=True)
            total = sums.get(name, (0, 0))
            sums[name] = (total[0] + count, total[1] + len(files) - 1)
    for name, (count, of) in sums.items():
        print(f"{'all':12} {name:10} {rate(count, of)}")


def alarms(options):
    """Draw recordings of a chain at random for both sides, and count comparisons in which a condition holds."""
    random.seed(1)
    for count in options.each:
        held, conditions, rows = 0, 0, 0
        for _ in range(options.draws):
            chosen = random.sample(recordings(random.choice(options.folders)), 2 * count)
            _, failed, compared = changes(options.sockstamp, chosen[:count], chosen[count:])
            held += bool(failed)
            conditions += len(failed)
            rows += compared
        some, single = rate(held, options.draws), rate(conditions, rows)
        print(f"{count} recordings a side: any condition {some}, a single one {single}", flush=True)


def faults(options):
    """Count the trials in which the planted delay is named first."""
    for folder in options.folders:
        files = recordings(folder)
        by_claim = {}
        for file in (file for file in files if file.endswith("-after.parquet")):
            explanations = told(options.sockstamp, "explain", "-r", file)["explanations"]
            answers = next(one for one in explanations if one["kind"] == "answers")
            first = answers["components"][0]
            is_it = (first["stage"], first["part"]) == ("peer.answer", "peer")
            key = answers["claim"] if is_it else "another"
            by_claim[key] = by_claim.get(key, 0) + 1
        print(f"{os.path.basename(folder):12} explain: {by_claim}", flush=True)
        named = {"found": 0, "else": 0}
        for before in (file for file in files if file.endswith("-before.parquet")):
            after = before.replace("-before", options.slow)
            if not os.path.exists(after):
                continue
            found, _, _ = changes(options.sockstamp, [before], [after])
            is_it = found and found[0]["stage"] in ("peer.answer", "app.service")
            named["found" if is_it else "else"] += 1
        print(f"{os.path.basename(folder):12} diff: {named}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)

    recording = commands.add_parser("record")
    recording.add_argument("sockstamp")
    recording.add_argument("directory")
    recording.add_argument("--load", choices=LOADS, required=True)
    recording.add_argument("--seconds", type=int, required=True)
    recording.add_argument("--recordings", type=int, required=True)
    recording.set_defaults(run=chain)

    planting = commands.add_parser("plant")
    planting.add_argument("sockstamp")
    planting.add_argument("directory")
    planting.add_argument("--factor", type=float, required=True)
    planting.add_argument("--seconds", type=int, required=True)
    planting.add_argument("--trials", type=int, required=True)
    planting.add_argument("--work", type=float, default=0.001)
    planting.set_defaults(run=plant)

    judging = commands.add_parser("judge")
    judging.add_argument("sockstamp")
    judging.add_argument("folders", nargs="+")
    judging.add_argument("--verbose", action="store_true")
    judging.set_defaults(run=judge)

    drawing = commands.add_parser("alarms")
    drawing.add_argument("sockstamp")
    drawing.add_argument("folders", nargs="+")
    drawing.add_argument("--each", type=int, action="append", required=True)
    drawing.add_argument("--draws", type=int, default=1000)
    drawing.set_defaults(run=alarms)

    finding = commands.add_parser("faults")
    finding.add_argument("sockstamp")
    finding.add_argument("folders", nargs="+")
    finding.add_argument("--slow", choices=["-after", "-all"], default="-all")
    finding.set_defaults(run=faults)

    serving = commands.add_parser("serve")
    serving.add_argument("work", type=float)
    serving.add_argument("factor", type=float)
    serving.add_argument("part", type=float)
    serving.set_defaults(run=lambda options: serve(options.work, options.factor, options.part))

    asking = commands.add_parser("ask")
    asking.set_defaults(run=lambda options: ask())

    options = parser.parse_args()
    if options.run in (chain, plant):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    options.run(options)


if __name__ == "__main__":
    main()
