"""Become a command for which bpf(2) fails with EPERM.

without_bpf.py COMMAND...
"""

import ctypes
import os
import platform
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
REFUSE, ALLOW = 0x00050001, 0x7FFF0000
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]

instructions = [(LOAD, 0, 0, 0), (JUMP_IF_EQUAL, 0, 1, BPF), (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW)]
code = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
memory = ctypes.create_string_buffer(code, len(code))
whole = struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(memory))
libc = ctypes.CDLL(None, use_errno=True)
for call in [(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, whole, 0, 0)]:
    if libc.prctl(*call) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[1], sys.argv[1:])
