#!/usr/bin/env python3
"""Print what redis and nginx do beside `sockstamp agent` over what they do beside nothing, in turn, at the default ceiling.

Fails where the median rate is more than 2 % lower: that needs a machine without other load. The CPU time per request, of
client, server and agent together, does not.

    sudo unshare -n python3 scripts/agent-programs.py target/release/sockstamp
"""

import contextlib
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from agent_process import Budgets

ROUNDS = 8
BUDGET = 0.98  # of the rate beside nothing
SECONDS = 3
WARM_UP = 8  # with load: the ceiling settles on rates and windows
REDIS = ["redis-benchmark", "-p", "6390", "-t", "get", "-c", "50", "-q", "-n"]
WRK = ["wrk", "-t", "1", "-c", "50"]
NGINX = """
daemon off; worker_processes 1; pid nginx.pid; error_log stderr crit;
events {}
http { access_log off; server { listen 127.0.0.1:8390; location / { return 200 "hello"; } } }
"""


def output(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def redis(seconds):
    """Return requests per second, and their number: the benchmark takes that, not a time."""
    requests = 20_000 * seconds
    text = output([*REDIS, str(requests)])
    return float(re.findall(r"([\d.]+) requests per second", text)[-1]), requests


def nginx(seconds):
    text = output([*WRK, "-d", f"{seconds}s", "http://127.0.0.1:8390/"])
    return float(re.search(r"Requests/sec:\s*([\d.]+)", text)[1]), int(re.search(r"(\d+) requests in", text)[1])


def processor_time():
    """Of this process, of all that it has started and that run, and of those that have ended."""
    ticks = 0
    waiting = [os.getpid()]
    while waiting:
        pid = waiting.pop()
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(") ", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
            waiting += map(int, children.read().split())
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ticks / os.sysconf("SC_CLK_TCK") + ended.ru_utime + ended.ru_stime


def run(program):
    """Return requests per second, and CPU seconds per request."""
    program(WARM_UP)
    used = processor_time()
    rate, requests = program(SECONDS)
    return rate, (processor_time() - used) / requests


@contextlib.contextmanager
def agent(settings):
    command = [sys.argv[1], "agent", "--config", settings]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            while process.poll() is None:
                with contextlib.suppress(OSError):
                    urllib.request.urlopen("http://127.0.0.1:9776/readyz")
                    break
                time.sleep(0.05)
            yield
        finally:
            process.terminate()


def figures(settings):
    beside = agent(settings) if settings else contextlib.nullcontext()
    with beside:
        return [run(program) for program in (redis, nginx)]


def main():
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as servers:
        settings, server = (os.path.join(directory, name) for name in ("agent.toml", "nginx.conf"))
        for path, text in ((settings, f'[target]\nnetns = "{os.getpid()}"\n'), (server, NGINX)):
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
        for command in (
            ["redis-server", "--port", "6390", "--save", ""],
            ["nginx", "-p", directory, "-c", server],
        ):
            process = servers.enter_context(subprocess.Popen(command, stdout=subprocess.DEVNULL))
            servers.callback(process.terminate)
        time.sleep(1)
        pairs = [(figures(None), figures(settings)) for _ in range(ROUNDS)]
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    budgets = Budgets()
    for place, name in enumerate(("redis", "nginx")):
        for figure, (what, unit) in enumerate((("rate", 1), ("CPU time", 1e-6))):
            ratios = sorted(beside[place][figure] / alone[place][figure] for alone, beside in pairs)
            alone = statistics.median(alone[place][figure] for alone, _ in pairs) / unit
            middle = f"{statistics.median(ratios):.3f} (from {ratios[0]:.3f} to {ratios[-1]:.3f})"
            print(f"{name}, {what}: {middle} of {alone:.0f} {'µs' if figure else 'per s'}")
            if what == "rate":
                budgets.least(f"{name}, {what}", statistics.median(ratios), BUDGET)
    budgets.end()


main()
