"""Become a command that may make only the system calls of a unit; another one ends it with SIGSYS.

seccomp.py FILTER COMMAND...: FILTER is the value of SystemCallFilter=.
"""

import ctypes
import os
import re
import struct
import subprocess
import sys

HEADER = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
KILL_PROCESS, ALLOW = 0x80000000, 0x7FFF0000
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06


def expanded(word):
    """The names in a set of systemd's, and in the sets in it."""
    if not word.startswith("@"):
        return {word}
    text = subprocess.run(["systemd-analyze", "syscall-filter", word], check=True, capture_output=True, text=True).stdout
    words = [line.strip() for line in text.splitlines()[1:]]
    return set().union(*(expanded(word) for word in words if word and not word.startswith("#")))


def numbers():
    with open(HEADER, encoding="ascii") as header:
        return {name: int(number) for name, number in re.findall(r"__NR_(\w+) (\d+)", header.read())}


def instruction(code, if_true, if_false, value):
    return struct.pack("HBBI", code, if_true, if_false, value)


def program(allowed):
    """Compare the number, which is the first field of struct seccomp_data."""
    checks = [instruction(JUMP_IF_EQUAL, 0, 1, number) + instruction(RETURN, 0, 0, ALLOW) for number in allowed]
    return instruction(LOAD, 0, 0, 0) + b"".join(checks) + instruction(RETURN, 0, 0, KILL_PROCESS)


def restrict(filter_of_unit):
    # systemd adds these (systemd.exec(5), "SystemCallFilter=").
    names = set().union({"execve"}, expanded("@default"), *(expanded(word) for word in filter_of_unit.split()))
    known = numbers()
    code = program(sorted(known[name] for name in names if name in known))
    memory = ctypes.create_string_buffer(code, len(code))
    whole = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    for call in [(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, whole, 0, 0)]:
        if libc.prctl(*call) != 0:
            sys.exit(os.strerror(ctypes.get_errno()))


restrict(sys.argv[1])
os.execvp(sys.argv[2], sys.argv[2:])
