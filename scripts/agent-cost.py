#!/usr/bin/env python3
"""Print the CPU time of `sockstamp agent` at 10,000 measured messages per second and a scrape every ten seconds.

Fails above half a percent of a core.

    sudo unshare -n python3 scripts/agent-cost.py target/release/sockstamp
"""

import os
import re
import socket
import threading
import time
import urllib.request

from agent_process import Budgets, agent_with

FLOWS = 100
PERIOD = 0.02  # one message per flow: 5,000 sends and 5,000 reads per second
SECONDS = 60
SCRAPE = 10
BUDGET = 0.5  # percent of a core
URL = "http://127.0.0.1:9776/metrics"
ACCEPT = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
SETTINGS = f"""
max_cost = "none"
[target]
netns = "{os.getpid()}"
"""


def scrape(accept):
    request = urllib.request.Request(URL, headers={"Accept": accept})
    return urllib.request.urlopen(request).read()


def measured():
    text = scrape("text/plain").decode()
    return sum(float(value) for value in re.findall(r"^sockstamp_measured_messages_total.* (\S+)$", text, re.M))


def processor_time(process):
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def connect():
    pairs = []
    with socket.create_server(("127.0.0.1", 10_000)) as listener:
        for _ in range(FLOWS):
            client = socket.create_connection(("127.0.0.1", 10_000))
            pairs.append((client, listener.accept()[0]))
    return pairs


def talk(pairs, ended):
    due = time.monotonic()
    while not ended.is_set():
        for client, server in pairs:
            client.sendall(b"x" * 100)
            server.recv(100)
        due = max(due + PERIOD, time.monotonic() - PERIOD)
        time.sleep(max(0, due - time.monotonic()))


def figures(agent):
    while agent.poll() is None:
        try:
            scrape(ACCEPT)
            break
        except OSError:
            time.sleep(0.1)
    ended = threading.Event()
    talker = threading.Thread(target=talk, args=(connect(), ended))
    talker.start()
    time.sleep(5)
    messages, used, began = measured(), processor_time(agent), time.monotonic()
    for _ in range(SECONDS // SCRAPE):
        time.sleep(SCRAPE)
        scrape(ACCEPT)
    passed, used = time.monotonic() - began, processor_time(agent) - used
    messages = measured() - messages
    ended.set()
    talker.join()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    percent = used / passed * 100
    print(f"{messages / passed:.0f} measured messages per second: {percent:.2f} % of a core")
    budgets = Budgets()
    budgets.least("measured messages per second", messages / passed, 0.95 * 2 * FLOWS / PERIOD)
    budgets.most("percent of a core", percent, BUDGET)
    budgets.end()


def main():
    with agent_with(SETTINGS) as agent:
        figures(agent)


main()
