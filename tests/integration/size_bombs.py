#!/usr/bin/env python3
"""size_bombs.py make KIND FILE       a small trace or perf.data that unpacks to much of KIND
size_bombs.py run MEGABYTES SECONDS COMMAND...   runs it, and fails where it needed more memory or CPU time, or was killed

Field numbers: protos/trace.proto.  perf.data: tools/perf/Documentation/perf.data-file-format.txt, as for a pipe."""
import ctypes
import os
import resource
import struct
import sys
import time
import zlib

# ---- traces ----


def varint(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, n):
    return varint(field << 3) + varint(n)


def field(f, body):
    return varint(f << 3 | 2) + varint(len(body)) + body


def packet(*parts):
    return field(1, b"".join(parts))


ON = number(10, 1)  # the sequence
CLEAR = number(13, 1)
NEEDS = number(13, 2)


def interned(*parts, start=False):
    return packet(ON, CLEAR if start else NEEDS, field(12, b"".join(parts)))


def entry(table, iid, *parts):
    return field(table, number(1, iid) + b"".join(parts))


def sample(time=1, stack=0, pid=1, tid=1):
    body = number(1, 0) + number(2, pid) + number(3, tid) + (number(4, stack) if stack else b"")
    return packet(number(8, time), ON, NEEDS, field(66, body))


def runs(items, room=4 << 20):
    """Joins many small pieces to few large ones."""
    row, size = [], 0
    for item in items:
        row.append(item)
        size += len(item)
        if size >= room:
            yield b"".join(row)
            row, size = [], 0
    if row:
        yield b"".join(row)


def lists(table, n, make):
    """Interned entries, some hundreds a packet."""
    yield interned(start=True)
    for row in runs((field(table, make(i)) for i in range(1, n + 1)), 64 << 10):
        yield interned(row)


def packets():
    yield from [b"\n\0" * (2 << 20)] * 40


def unpacked():
    yield from [field(1, field(999, bytes(16 << 20)))] * 130


def one_packet():
    yield field(1, field(999, bytes(40 << 20)))


def nested():
    inner = field(1, field(50, zlib.compress(b"\n\0" * (8 << 20))))
    for _ in range(4):
        inner = field(1, field(50, zlib.compress(inner)))
    yield sample() + inner


def samples():
    yield interned(start=True)
    yield from [sample() * (256 << 10)] * 34


def names():
    text = b"x" * 8000
    yield from lists(5, 12000, lambda i: number(1, i) + field(2, b"%x" % i + text))


def mappings():
    yield interned(entry(17, 1, field(2, b"x")), start=True)
    yield from (interned(row) for row in runs((entry(16, i, field(2, b"%x" % i)) + entry(19, i, number(2, i), number(7, 1))
                                               for i in range(1, 300000)), 64 << 10))


def memory():  # numbers far from each other, of one frame: no bound of a kind is reached
    one = b"".join(entry(6, i << 40) for i in range(1, 1001))
    yield interned(start=True)
    for k in range(6000):
        yield interned(one.replace(b"\x80\x80\x80\x80\x80", b"%c%c\x80\x80\x80" % (0x80 | k & 0x7F, 0x80 | k >> 7)))


def depth():  # one stack of 8,192 calls in 100,000 threads
    yield interned(entry(5, 1, field(2, b"f")), entry(6, 1, number(2, 1), number(4, 1)), start=True)
    yield interned(entry(7, 1, number(2, 1) * 8192))
    yield from runs(sample(time=i, stack=1, tid=i) for i in range(1, 100000))


def line():  # 8,192 calls of 256 inlined ones each, with names of 4,000 bytes
    yield interned(entry(17, 1, field(2, b"x")), entry(19, 1, number(7, 1)),
                   entry(6, 1, number(3, 1), number(4, 1)), entry(7, 1, number(2, 1) * 8192), start=True)
    yield packet(field(61, field(1, b"/x") + field(3, number(1, 1) + field(2, field(1, b"long" * 1000)) * 256)))
    yield sample(stack=1)


def lines():
    yield interned(entry(17, 1, field(2, b"x")), entry(19, 1, number(7, 1)), start=True)
    yield from [packet(field(61, field(1, b"/x") + field(3, number(1, 1) + field(2, number(3, 1)) * 256) * 10))] * 2000


def clocks():
    one = b"".join(field(1, number(1, c) + number(2, 1)) for c in (1, 2, 3, 4, 5, 6))
    yield packet(field(6, one)) * 200000


def followers():
    yield interned(start=True)
    yield packet(ON, NEEDS, field(66, number(7, 1) * 32)) * 900000


TRACES = (packets, unpacked, one_packet, nested, samples, names, mappings, memory, depth, line, lines, clocks,
          followers)


def write_trace(kind, path):
    last = packed = None
    with open(path, "wb") as out:
        out.write(sample())
        for piece in kind():
            if piece is not last:
                packed = field(1, field(50, zlib.compress(piece, 1)))
            last = piece
            out.write(packed)


# ---- perf.data ----

SAMPLE_ID_ALL, MMAP, COMM, TASK, MMAP2 = 1 << 18, 1 << 8, 1 << 9, 1 << 13, 1 << 23
IP, TID, TIME, CALLCHAIN, CPU, PERIOD = 1, 2, 4, 32, 128, 256


def record(type_, body, misc=0):
    return struct.pack("<LHH", type_, misc, 8 + len(body)) + body


def text(t):
    return t + bytes(8 - len(t) % 8)


def trailer(pid, time):
    return struct.pack("<LLQLL", pid, pid, time, 0, 0)


HEAD = struct.pack("<QQ", 0x32454C4946524550, 16)
ATTR = record(64, struct.pack("<LLQQQQQ", 1, 136, 0, 1000000, IP | TID | TIME | CALLCHAIN | CPU | PERIOD, 0,
                              SAMPLE_ID_ALL | MMAP | COMM | TASK | MMAP2).ljust(136, b"\0"))
ROUND = record(68, b"")


def perf_sample(time, pid, chain):
    return record(9, struct.pack("<QLLQLLQQ", 0x1000, pid, pid, time, 0, 0, 1, len(chain) // 8) + chain, 2)


def mmap2(pid, page, path, time):
    return record(10, struct.pack("<LLQQQLLQQLL", pid, pid, page << 12, 4096, 0, 8, 1, page, 0, 5, 2) + text(path)
                  + trailer(pid, time), 2)


def perf_waiting():  # 1.2 GB without the end of a round, behind a window of 128 MiB
    yield b"".join(perf_sample(i, 1, os.urandom(64000)) for i in range(1, 300)), 60


def perf_mappings():  # each of another file, with a long path
    for row in runs(mmap2(1 + i % 50, i, b"/%x" % i + b"/x" * 2000, i) + (ROUND if i % 1000 == 0 else b"")
                    for i in range(1, 200000)):
        yield row, 1
    yield perf_sample(1 << 40, 1, b""), 1


def perf_build_ids():
    for row in runs(record(67, struct.pack("<L20sL", 1, b"%020d" % i, 20) + text(b"/%x" % i + b"/x" * 30000) + bytes(4))
                    for i in range(15000)):
        yield row, 1
    yield perf_sample(1, 1, b""), 1


def perf_threads():
    for k in range(1, 80):
        yield b"".join(record(3, struct.pack("<LL", 1 + i % 64, k << 16 | i) + b"comm".ljust(8, b"\0") + trailer(1, k))
                       for i in range(50000)) + ROUND, 1
    yield perf_sample(1 << 40, 1, b""), 1


def perf_alternating():  # one mapping, one sample: first new mappings, each below all others, then other files in their place
    user = struct.pack("<Q", -512 & 2**64 - 1)
    for row in runs(mmap2(1, 1 << 20 | 120000 - 2 * (i % 60000), b"/%x" % (i // 60000), 2 * i)
                    + perf_sample(2 * i + 1, 1, user + struct.pack("<Q", (1 << 20 | 120000 - 2 * (i % 60000)) << 12))
                    + (ROUND if i % 1000 == 0 else b"") for i in range(1, 120001)):
        yield row, 1


PERF_DATA = (perf_waiting, perf_mappings, perf_build_ids, perf_threads, perf_alternating)


class Piece(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("size", ctypes.c_size_t), ("done", ctypes.c_size_t)]


def write_perf_data(kind, path):
    """All compressed records are one stream."""
    zstd = ctypes.CDLL("libzstd.so.1")
    zstd.ZSTD_createCStream.restype = ctypes.c_void_p
    zstd.ZSTD_compressStream2.restype = ctypes.c_size_t
    stream = ctypes.c_void_p(zstd.ZSTD_createCStream())
    for parameter, value in ((100, 1), (101, 27), (160, 1)):  # level, log of the window, matches far away
        zstd.ZSTD_CCtx_setParameter(stream, parameter, value)
    room = ctypes.create_string_buffer(65000)
    with open(path, "wb") as out:
        out.write(HEAD + ATTR)
        for piece, times in kind():
            data = ctypes.create_string_buffer(piece, len(piece))
            for _ in range(times):
                given, left = Piece(ctypes.addressof(data), len(piece), 0), 1
                while left or given.done < given.size:
                    got = Piece(ctypes.addressof(room), len(room), 0)
                    left = zstd.ZSTD_compressStream2(stream, ctypes.byref(got), ctypes.byref(given), 1)
                    if got.done:
                        out.write(record(81, room.raw[:got.done]))


# ---- ----


def resident(pid):
    try:
        with open(f"/proc/{pid}/statm") as f:
            return int(f.read().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def run(limit, seconds, command):
    """Ended where it holds more, so that a machine without so much memory stays alive."""
    pid = os.fork()
    if not pid:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        os.execv(command[0], command)
    done, ended = 0, False
    while not done:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        if not done and resident(pid) > limit and not ended:
            os.kill(pid, 9)
            ended = True
        time.sleep(0 if done else 0.01)
    held = usage.ru_maxrss << 10
    if held > limit:
        print(f"{held / 1e6:.0f} MB were held, {limit / 1e6:.0f} are allowed", file=sys.stderr)
        return 99
    if os.WIFSIGNALED(status):
        print(f"ended by signal {os.WTERMSIG(status)}", file=sys.stderr)
        return 98
    return os.WEXITSTATUS(status)


if __name__ == "__main__":
    if len(sys.argv) > 4 and sys.argv[1] == "run":
        sys.exit(run(int(sys.argv[2]) * 1000000, int(sys.argv[3]), sys.argv[4:]))
    kinds = {k.__name__: (w, k) for w, all_of in ((write_trace, TRACES), (write_perf_data, PERF_DATA)) for k in all_of}
    if len(sys.argv) != 4 or sys.argv[1] != "make" or sys.argv[2] not in kinds:
        sys.exit("usage: size_bombs.py make KIND FILE, with a KIND of " + " ".join(kinds))
    write, kind = kinds[sys.argv[2]]
    write(kind, sys.argv[3])
