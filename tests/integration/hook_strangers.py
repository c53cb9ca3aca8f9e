#!/usr/bin/env python3
"""hook_strangers.py SOCKET - 10,000 connections to the hook socket by a process that was not asked: nothing, half a message,
the real thing, too many descriptors, a descriptor that takes an hour to close; some stay open.  Prints how many when the other
side has accepted all of them, then stays."""
import array
import errno
import os
import signal
import socket
import sys
import time

from lingering import lingering

path, count = sys.argv[1], 10000


def send(s, data, fds):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    while True:
        try:
            s.sendmsg([data], rights)
            return
        except OSError as e:
            # As many descriptors are in flight as RLIMIT_NOFILE allows: the other side has yet to close some.
            if e.errno != errno.ETOOMANYREFS:
                raise
            time.sleep(0.01)


maps, mem = os.open("/proc/self/maps", os.O_RDONLY), os.open("/proc/self/mem", os.O_RDONLY)
pipe = os.pipe()
slow = [lingering() for i in range(10)]
kinds = [(b"", []), (b"q", []), (b"p", [maps]), (b"p", [maps, mem]), (b"p", [maps, mem] * 20), (b"p", list(pipe)), (b"pp", [mem, maps])]
stay = []
for i in range(count):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)  # waits while the backlog is full
    data, fds = (b"p", [slow[i // 1000][0].fileno()]) if i % 1000 == 999 else kinds[i % len(kinds)]
    try:
        if data:
            send(s, data, fds)
    except (BrokenPipeError, ConnectionResetError):
        pass  # closed by the other side already
    if i % 50 == 0:
        stay.append(s)
    else:
        s.close()
# Connections are accepted in order: when this one has been closed, none waits in the backlog.
last = socket.socket(socket.AF_UNIX)
last.connect(path)
try:
    last.recv(1)
except ConnectionResetError:
    pass
print(count + 1, flush=True)
signal.pause()  # until killed: the descriptors that linger are not closed here
