#!/usr/bin/env python3
"""control_requests.py SOCKET COUNT SEED [PID...] - hostile requests at random: of each field values that it can and cannot
have, trace configs whole and damaged, descriptors that no request may bring, messages out of turn, and clients that leave at any moment.
Each is answered or its connection closed within the daemon's deadlines, which is all that is asked here; the daemon's
other clients are looked at by control.sh.  What the answers were is printed."""
import collections
import errno
import os
import random
import socket
import sys

import control_client
from control_client import ACCEPTED, DENIED, FAILED, RENEW, REQUEST, STOP, hear, message, send_with, varint

path, count, rng = sys.argv[1], int(sys.argv[2]), random.Random(int(sys.argv[3]))
PIDS = [int(pid) for pid in sys.argv[4:]] * 20 + [1, 2, os.getpid(), os.getppid()]
EVENTS = ["cpu-clock", "task-clock", "cycles", "page-faults", "context-switches", "cpu-clock:k", "cpu-clock:uk", "sched:sched_switch",
          "uprobe:/bin/ls:main", "kprobe:do_exit", "{cpu-clock,cycles}", "r1a8", "mem:0x1000", "cpu/config=0x3c/",
          "../../etc/passwd", "%s%n", "cpu-clock," * 200, "\xff\xfe", ""]
CPUS = ["0", "0-1", "0-4096", "9999", "-1", "0,0,0", "a", "", "0-" * 500]
BIG = [0, 1, 7, 8, 255, 4096, 65528, 65536, 1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1]


def number(field, value):
    return varint(field << 3) + varint(value & (1 << 64) - 1)


def text(field, value):
    data = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    return varint(field << 3 | 2) + varint(len(data)) + data


def source():
    timebase = number(2 if rng.random() < 0.8 else 1, rng.choice([0, 1, 99, 999, 20000, 1 << 63])) + number(4, rng.choice([0, 1, 2, 11, 99]))
    if rng.random() < 0.2:
        timebase += text(3, text(1, rng.choice(EVENTS)))
    scope = b"".join(number(1, rng.choice(PIDS + BIG)) for _ in range(rng.choice([0, 0, 1, 3, 500])))
    stacks = text(1, scope) + (number(2, 1) if rng.random() < 0.2 else b"")
    config = text(15, timebase) + text(16, stacks)
    if rng.random() < 0.2:
        config += number(rng.choice([1, 2, 3, 4, 5, 8, 9, 10, 13, 14]), rng.choice(BIG))
    return text(2, text(1, text(1, rng.choice(["linux.perf"] * 9 + ["linux.ftrace"])) + text(111, config)))


def trace_config():
    data = b"".join(text(1, number(1, rng.choice([4, 64, 4096, 1 << 31]))) for _ in range(rng.choice([0, 1, 1, 1, 40])))
    data += b"".join(source() for _ in range(rng.choice([0, 1, 1, 2, 5, 60])))
    return data + number(3, rng.choice([1, 100, 600000]))


def request():
    data = number(1, control_client.VERSION if rng.random() < 0.97 else rng.choice(BIG))
    if rng.random() < 0.2:
        return data + text(2, trace_config())
    if rng.random() < 0.35:
        data += number(3, 1)
    else:
        n = rng.choice([0, 1, 1, 1, 1, 1, 1, 2, 3, 50, 3000])
        data += text(4, b"".join(varint(rng.choice(PIDS) if rng.random() < 0.9 else rng.randrange(1 << 32)) for _ in range(n)))
    data += number(8, rng.choice([1, 99, 999, 4000, 20000, 20001, 1 << 63])) if rng.random() < 0.9 else number(9, rng.choice(BIG))
    data += number(14, rng.choice([0, 4, 7, 77] + [1] * 40))
    data += number(22, rng.choice([0, 1, 2, 3, 8, 1 << 63] + [7] * 40))
    data += text(6, rng.choice(EVENTS[:2] * 40 + EVENTS))
    for field, values in ((5, (1,)), (10, BIG), (13, (1,)), (16, (0, 1, 2, 3, 4, 5, 99)), (18, (1,)), (19, (1,)), (20, (1,))):
        if rng.random() < 0.05:
            data += number(field, rng.choice(values))
    if rng.random() < 0.1:
        data += text(7, rng.choice(["prev_pid == 1", "((((((", "x" * 9000]))
    if rng.random() < 0.1:
        data += text(15, rng.choice(CPUS))
    if rng.random() < 0.1:
        data += text(17, rng.choice(["no right", "\x1b[31m" * 60, "n" * 9000]))
    return data


def damaged(data):
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        if data:
            at = rng.randrange(len(data))
            what = rng.randrange(3)
            if what == 0:
                data[at] ^= 1 << rng.randrange(8)
            elif what == 1:
                del data[at:at + rng.randrange(1, 9)]
            else:
                data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
    return bytes(data)


def descriptors():
    """Mostly none."""
    if rng.random() < 0.9:
        return ()
    if rng.random() < 0.5:
        return socket.socketpair()
    return [open("/dev/null") for _ in range(rng.choice([1, 1, 2, 100]))]


def one():
    s = control_client.connect(path)
    kept = descriptors()
    data = request()
    if rng.random() < 0.2:
        data = damaged(data)
    frame = message(REQUEST, data)
    half = rng.random() < 0.05
    if half:
        frame = damaged(frame)
    try:
        send_with(s, frame, *[each.fileno() for each in kept])
        if rng.random() < 0.1:
            return "left at once"
        if half:
            s.shutdown(socket.SHUT_WR)  # else the daemon waits for the rest of what may be half a frame
        for _ in range(0 if half else rng.choice([0, 0, 0, 1, 3])):
            s.sendall(message(rng.choice([STOP, RENEW, RENEW, REQUEST, 99]), bytes(rng.randrange(9))))
        kind, _ = hear(s, ACCEPTED, DENIED, FAILED)
        if kind != ACCEPTED:
            return "denied"
        for _ in range(rng.choice([0, 0, 1, 4])):
            s.sendall(message(rng.choice([RENEW, RENEW, STOP])))
        if rng.random() < 0.3:
            s.packets.shutdown(socket.SHUT_RDWR)
        return "accepted"
    except OSError as error:
        if isinstance(error, TimeoutError):
            sys.exit("no answer in 20 s: %r" % data)
        if error.errno not in (None, errno.EPIPE, errno.ECONNRESET):
            raise
        return "closed"
    finally:
        for each in kept:
            each.close()
        control_client.close(s)


outcomes = collections.Counter(one() for _ in range(count))
print(", ".join("%u %s" % (n, what) for what, n in sorted(outcomes.items())))
for what in "accepted", "denied", "closed":
    if not outcomes[what]:
        sys.exit("no request was %s" % what)
