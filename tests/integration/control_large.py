#!/usr/bin/env python3
"""control_large.py SOCKET [flood] - requests that are small to send and large to serve: one process named 4,096 times,
and each of many with its children.  They are answered, by a reason where they are past a limit.  flood: on and on, until
without a listener.  That others are served meanwhile is looked at by control.sh."""
import os
import resource
import subprocess
import sys

from control_client import ACCEPTED, DENIED, ask, close, hear

path, flood = sys.argv[1], len(sys.argv) > 2
PROCESSES = 256  # user-processes by user-recordings
# user-descriptors by user-recordings, and what the daemon may have: an eighth of its own, as these tests give it
DESCRIPTORS = min(65536 // 4, resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 8)


def expect(pids, wanted, words=b""):
    s = ask(path, pids)
    kind, data = hear(s, DENIED, ACCEPTED)
    close(s)
    if kind != wanted or words not in data:
        sys.exit("%u processes: answer %u, %r" % (len(pids), kind, data))


children = [subprocess.Popen(["sleep", "600"]) for i in range(PROCESSES + 1)]
pids = [child.pid for child in children]
try:
    if flood:
        print("floods", flush=True)
        while True:
            s = ask(path, pids[:PROCESSES] * 16)
            hear(s, DENIED, ACCEPTED)
            close(s)
    expect(pids[:1] * 4096, ACCEPTED)
    if PROCESSES * (2 * os.cpu_count() + 1) <= DESCRIPTORS:
        expect((pids[:PROCESSES] * 16)[::-1], ACCEPTED)
    else:
        expect((pids[:PROCESSES] * 16)[::-1], DENIED, b"(user-descriptors)")
    expect(pids, DENIED, b"(user-processes)")
except (ConnectionResetError, ConnectionRefusedError, FileNotFoundError, BrokenPipeError):
    if not flood:
        raise
finally:
    for child in children:
        child.kill()
