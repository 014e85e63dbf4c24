#!/usr/bin/env python3
"""Print the memory of `sockstamp agent` and the time of a scrape at 10,000 flows and 500 groups.

Fails above 20 MB, or where the median scrape takes more than 50 ms: that needs a machine without other load.

    sudo unshare -n python3 scripts/agent-figures.py target/release/sockstamp
"""

import os
import resource
import socket
import time
import urllib.request

from agent_process import Budgets, agent_with

GROUPS = 500
CONNECTIONS = 10  # per group: two flows each
SCRAPES = 20
MEMORY_BUDGET = 20  # MB
SCRAPE_BUDGET = 50  # ms
PAUSE = 0.25  # scrapes within 200 ms share a look
KINDS = {
    "protobuf": "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
    "openmetrics": "application/openmetrics-text;version=1.0.0",
}
SETTINGS = f"""
by = ["port", "proto"]
max_cost = "none"
max_series = 250000
[target]
netns = "{os.getpid()}"
"""


def scrape(kind):
    request = urllib.request.Request("http://127.0.0.1:9776/metrics", headers={"Accept": KINDS[kind]})
    start = time.monotonic()
    body = urllib.request.urlopen(request).read()
    return (time.monotonic() - start) * 1e3, body


def megabytes(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        return int(status.read().split("VmRSS:")[1].split()[0]) / 1024


def connect():
    pairs = []
    for port in range(10_001, 10_001 + GROUPS):
        with socket.create_server(("127.0.0.1", port)) as listener:
            for _ in range(CONNECTIONS):
                client = socket.create_connection(("127.0.0.1", port))
                pairs.append((client, listener.accept()[0]))
    return pairs


def talk(pairs):
    for client, server in pairs:
        for sender, receiver in ((client, server), (server, client)):
            sender.sendall(b"x" * 100)
            receiver.recv(100)


def main():
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    with agent_with(SETTINGS) as agent:
        figures(agent)


def figures(agent):
    while agent.poll() is None:
        try:
            scrape("protobuf")
            break
        except OSError:
            time.sleep(0.1)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    print(f"idle: {megabytes(agent):.1f} MB")
    pairs = connect()
    for _ in range(5):
        talk(pairs)
    budgets = Budgets()
    for kind in KINDS:
        times = []
        for _ in range(SCRAPES):
            time.sleep(PAUSE)
            took, body = scrape(kind)
            times.append(took)
        times.sort()
        median, memory = times[SCRAPES // 2], megabytes(agent)
        print(
            f"{2 * len(pairs)} flows, {kind}: {len(body) / 1e6:.1f} MB in {median:.0f} ms (median), "
            f"{times[-1]:.0f} ms (slowest), memory {memory:.1f} MB"
        )
        budgets.most(f"{kind}, MB of memory", memory, MEMORY_BUDGET)
        budgets.most(f"{kind}, ms of a scrape", median, SCRAPE_BUDGET)
    groups = next(line for line in body.decode().splitlines() if line.startswith("sockstamp_groups "))
    print(groups)
    budgets.least("groups", int(groups.split()[1]), GROUPS)
    budgets.end()


main()
