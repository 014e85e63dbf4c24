"""Applies the expressions of programs that are not installed here to what ping and fping print.

Each has its source: the file and the function that reads the output.
"""

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
    # plugins/inputs/ping/ping_notwindows.go of telegraf: processPingOutput() and its helpers.
    ("telegraf: packets", ping, r"(?m)^(\d+) packets transmitted, (\d+) (?:packets )?received"),
    ("telegraf: loss", lost, r"(\d+(?:\.\d+)?)% packet loss"),
    ("telegraf: times", ping, r"(?m)^(?:rtt|round-trip) min/avg/max/(?:mdev|stddev) = "
                              r"([\d.]+)/([\d.]+)/([\d.]+)/([\d.]+) ms$"),
    ("telegraf: ttl", ping, r"ttl=(\d+)"),
    # homeassistant/components/ping/const.py of Home Assistant before it used icmplib.
    ("home assistant", ping, r"(\d+.\d+)/(\d+.\d+)/(\d+.\d+)/(\d+.\d+)"),
    # LibreNMS/Data/Source/FpingResponse.php of LibreNMS.
    ("librenms", counts, r"(?m)^(\S+) *: xmt/rcv/%loss = (\d+)/(\d+)/(?:100|0)%"
                         r"(?:, min/avg/max = ([\d.]+)/([\d.]+)/([\d.]+))?$"),
    # src/libs/zbxicmpping/icmpping.c of Zabbix: times after the colon, - for a lost probe.
    ("zabbix: times", times, r"(?m)^127.0.0.1 +: ([\d.]+) ([\d.]+)$"),
    ("zabbix: lost", times, r"(?m)^10.88.0.9 +: - -$"),
    # fping.go of fping-exporter: a line for each host of fping -q -c.
    ("fping-exporter", counts, r"^([\w.:-]+) +: xmt/rcv/%loss = (\d+)/(\d+)/(\d+)%, "
                               r"min/avg/max = ([\d.]+)/([\d.]+)/([\d.]+)"),
    # ping.py of nagios-like wrappers, and gping's pinger crate, src/linux.rs.
    ("gping", ping, r"(?i)time=(?P<ms>\d+)(?:\.(?P<ns>\d+))?"),
    # mtail and logstash patterns: a reply with its sequence, TTL and time.
    ("a reply", ping, r"(?m)^(\d+) bytes from (\S+): icmp_seq=(\d+) ttl=(\d+) time=([\d.]+) ms"),
    # fping's lines of single probes, as vmping-like wrappers read them.
    ("a line of fping", lines, r"(?m)^(\S+) : \[(\d+)\], (\d+) bytes, ([\d.]+) ms "
                               r"\(([\d.]+) avg, (\d+)% loss\)$"),
]

for name, text, expression in EXPRESSIONS:
    found = re.search(expression, text)
    print(f"{name}: {len(found.groups()) if found else 'nothing in ' + text}")
