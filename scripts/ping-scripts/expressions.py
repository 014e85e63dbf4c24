"""Reads the fields of what ping and fping print, as exporters and dashboards do, by expressions of our own."""

import re
import subprocess
import sys

alive, dead = sys.argv[1:]


def output(*command):
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return run.stdout


ping = output("ping", "-c", "2", "-i", "0.2", alive)
lost = output("ping", "-c", "1", "-W", "1", dead)
counts = output("fping", "-c", "2", "-q", "-p", "100", alive)
times = output("fping", "-C", "2", "-q", "-p", "100", alive, dead)
lines = output("fping", "-c", "1", alive)

EXPRESSIONS = [
    ("packets", ping, r"(?m)^(\d+) packets transmitted, (\d+) (?:packets )?received"),
    ("loss", lost, r"(\d+(?:\.\d+)?)% packet loss"),
    ("times", ping,
     r"(?m)^(?:rtt|round-trip) min/avg/max/(?:mdev|stddev) = ([\d.]+)/([\d.]+)/([\d.]+)/([\d.]+) ms$"),
    ("ttl", ping, r"ttl=(\d+)"),
    ("four times", ping, r"(\d+.\d+)/(\d+.\d+)/(\d+.\d+)/(\d+.\d+)"),
    ("a time", ping, r"(?i)time=(?P<ms>\d+)(?:\.(?P<ns>\d+))?"),
    ("a reply", ping, r"(?m)^(\d+) bytes from (\S+): icmp_seq=(\d+) ttl=(\d+) time=([\d.]+) ms"),
    ("counts of a host", counts,
     r"(?m)^(\S+) *: xmt/rcv/%loss = (\d+)/(\d+)/(?:100|0)%(?:, min/avg/max = ([\d.]+)/([\d.]+)/([\d.]+))?$"),
    ("times of a host", times, r"(?m)^127.0.0.1 +: ([\d.]+) ([\d.]+)$"),
    ("lost probes of a host", times, r"(?m)^10.88.0.9 +: - -$"),
    ("a line of fping", lines,
     r"(?m)^(\S+) : \[(\d+)\], (\d+) bytes, ([\d.]+) ms \(([\d.]+) avg, (\d+)% loss\)$"),
]

for name, text, expression in EXPRESSIONS:
    found = re.search(expression, text)
    print(f"{name}: {len(found.groups()) if found else 'nothing in ' + text}")
