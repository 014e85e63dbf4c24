//! Rules of the kernel's firewall without nft(8).

/// The beginning of a Python program that goes on with `commit(add(kind, attributes...), ...)`:
/// objects of family inet (include/uapi/linux/netfilter/nf_tables.h and nfnetlink.h, v6.18).
pub const NETFILTER: &str = "
import socket, struct
def attribute(kind, value):
    if isinstance(value, str): value = value.encode() + bytes(1)
    if isinstance(value, int): value = struct.pack('>I', value)
    padding = bytes(-len(value) % 4)
    return struct.pack('=HH', len(value) + 4, kind) + value + padding
def nested(kind, *values):
    return attribute(kind | 0x8000, b''.join(values))
def message(kind, flags, family, resource, *attributes):
    body = struct.pack('>BBH', family, 0, resource) + b''.join(attributes)
    return struct.pack('=IHHII', len(body) + 16, kind, flags | 1, kind, 0) + body
NFTABLES, INET, CREATE, ACK = 10, 1, 0x400, 4
def add(kind, *attributes):
    return message(NFTABLES << 8 | kind, CREATE | ACK, INET, 0, *attributes)
def commit(*objects):
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
    begin, end = message(0x10, 0, 0, NFTABLES), message(0x11, 0, 0, NFTABLES)
    netlink.send(begin + b''.join(objects) + end)
    for _ in objects:
        error = struct.unpack_from('=i', netlink.recv(8192), 16)[0]
        assert error == 0, error
";
