#!/usr/bin/env python3
"""control_large.py SOCKET [flood] - requests that are small to send and large to serve: one process named 4,096 times,
and each of many with its children.  They are answered, by a reason where they are past a limit.  flood: on and on, until
nobody listens.  That others are served meanwhile is looked at by control.sh."""
import socket
import struct
import subprocess
import sys

path, flood = sys.argv[1], len(sys.argv) > 2
REQUEST, DENIED, ACCEPTED, NOTE = 1, 17, 16, 18
PROCESSES = 256  # user-processes by user-recordings


def varint(n):
    data = b""
    while n > 127:
        data += bytes([n & 127 | 128])
        n >>= 7
    return data + bytes([n])


def ask(pids):
    packed = b"".join(map(varint, pids))
    # version 1; pids; children; frequency 99; clock 1
    data = b"\x08\x01\x22" + varint(len(packed)) + packed + b"\x28\x01\x40\x63\x70\x01"
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    s.settimeout(20)
    s.sendall(struct.pack("<II", len(data), REQUEST) + data)
    return s


def read(s, n):
    data = b""
    while len(data) < n:
        more = s.recv(n - len(data))
        if not more:
            raise ConnectionResetError
        data += more
    return data


def answer(s):
    while True:
        n, kind = struct.unpack("<II", read(s, 8))
        data = read(s, n)
        if kind in (DENIED, ACCEPTED):
            return kind, data


def expect(pids, wanted, words=b""):
    s = ask(pids)
    kind, data = answer(s)
    s.close()
    if kind != wanted or words not in data:
        sys.exit("%u processes: answer %u, %r" % (len(pids), kind, data))


children = [subprocess.Popen(["sleep", "600"]) for i in range(PROCESSES + 1)]
pids = [child.pid for child in children]
try:
    if flood:
        print("floods", flush=True)
        while True:
            answer(ask(pids[:PROCESSES] * 16))
    expect(pids[:1] * 4096, ACCEPTED)
    expect((pids[:PROCESSES] * 16)[::-1], ACCEPTED)
    expect(pids, DENIED, b"(user-processes)")
except (ConnectionResetError, ConnectionRefusedError, FileNotFoundError, BrokenPipeError):
    if not flood:
        raise
finally:
    for child in children:
        child.kill()
