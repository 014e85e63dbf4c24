"""Has a package ping a living host and a dead one, and prints what it makes of the output."""

import subprocess
import sys


def pingparsing(alive, dead):
    import pingparsing as package

    for host in (alive, dead):
        transmitter = package.PingTransmitter()
        transmitter.destination, transmitter.count, transmitter.deadline = host, 2, 3
        stats = package.PingParsing().parse(transmitter.ping())
        yield {key: value for key, value in stats.as_dict().items()
               if key not in ("packet_transmit", "packet_loss_count")}
        yield [reply["icmp_seq"] for reply in stats.icmp_replies]


def jc(alive, dead):
    import jc as package

    for host in (alive, dead):
        command = ["ping", "-c", "2", "-W", "1", "-w", "2", host]
        text = subprocess.run(command, capture_output=True, text=True).stdout
        parsed = package.parse("ping", text)
        keys = ("destination", "data_bytes", "packet_loss_percent", "round_trip_ms_avg")
        yield {key: parsed.get(key) for key in keys}
        yield [(reply["type"], reply.get("icmp_seq"), reply.get("time_ms"), reply.get("ttl"))
               for reply in parsed["responses"] if reply["type"] == "reply"]


def fping(alive, dead):
    import fping as package

    yield package.ping(alive)
    yield sorted(package.ping_many_updown([alive, dead]).items())


def emping(alive, dead):
    from emping import pinger

    for host in (alive, dead):
        yield pinger.get_pinger(timeout=1, backend="subprocess").ping(host)


def ofunctions(alive, dead):
    from ofunctions.network import ping

    yield "alive", ping(targets=[alive], retries=1), "dead", ping(targets=[dead], retries=1)


def mass_ping(alive, dead):
    import mass_ping as package

    masses = package.MassPing([alive, dead])
    yield masses.ping(alive, 1), masses.ping(dead, 1)


name, *hosts = sys.argv[1:]
for line in globals()[name](*hosts):
    print(line)
