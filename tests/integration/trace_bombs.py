#!/usr/bin/env python3
"""trace_bombs.py KIND FILE - writes a small trace that unpacks to much of KIND: what a stranger may send.

Field numbers: protos/trace.proto.  Most is in compressed packets; `python3 trace_bombs.py` lists the kinds."""
import sys
import zlib


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


def sample(time=1, stack=0, pid=1, tid=1, cpu=0):
    body = number(1, cpu) + number(2, pid) + number(3, tid) + (number(4, stack) if stack else b"")
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


def each(n, make):
    return runs(make(i) for i in range(1, n + 1))


def lists(table, n, make):
    """Interned entries, some hundreds a packet."""
    yield interned(start=True)
    for row in runs((field(table, make(i)) for i in range(1, n + 1)), 64 << 10):
        yield interned(row)


FRAME = entry(6, 1, number(4, 1))


def stack_of(iid, frames):
    return entry(7, iid, b"".join(number(2, f) for f in frames))


def empty():  # 3 GB of packets without anything in them
    for _ in range(750):
        yield b"\n\0" * (2 << 20)


def large_packet():
    yield field(1, field(999, bytes(40 << 20)))


def nested():
    inner = field(1, field(50, zlib.compress(b"\n\0" * (8 << 20))))
    for _ in range(4):
        inner = field(1, field(50, zlib.compress(inner)))
    yield sample() + inner


def samples():
    yield interned(start=True)
    row = sample() * (256 << 10)
    for _ in range(40):
        yield row


def processes():
    yield from each(1200000, lambda i: packet(field(2, field(1, number(1, i)))))


def threads():
    yield packet(field(2, field(1, number(1, 7))))
    yield from each(1200000, lambda i: packet(field(2, field(2, number(1, i) + number(3, 7) + field(2, b"t")))))


def sampled_threads():
    yield interned(FRAME, stack_of(1, [1]), start=True)
    yield from each(1200000, lambda i: sample(stack=1, pid=i, tid=i))


def names():
    yield from lists(5, 1300000, lambda i: number(1, i) + field(2, b"%x" % i))


def long_names():
    text = b"x" * 8000
    yield from lists(5, 12000, lambda i: number(1, i) + field(2, b"%x" % i + text))


def paths():  # 32 MB each would fit in a packet
    text = b"/x" * (4 << 20)
    yield interned(start=True)
    for i in range(1, 12):
        yield interned(entry(17, i, field(2, b"%x" % i + text)))


def notes():
    text = b"n" * (1 << 20)
    for i in range(100):
        yield packet(field(60001, field(2, b"%x" % i + text)))


def mappings():
    yield interned(entry(17, 1, field(2, b"x")), start=True)
    for row in runs((entry(16, i, field(2, b"%x" % i)) + entry(19, i, number(2, i), number(7, 1))
                     for i in range(1, 300000)), 64 << 10):
        yield interned(row)


def frames():
    yield from lists(6, 2300000, lambda i: number(1, i) + number(4, i))


def interned_numbers():  # of one frame
    yield from lists(6, 9000000, lambda i: number(1, i << 40))


def dense_numbers():
    yield from lists(6, 9000000, lambda i: number(1, i))


def callstacks():  # all different, of 100 frames
    yield interned(*(entry(6, i, number(4, i)) for i in range(1, 20001)), start=True)
    common = b"".join(number(2, f) for f in range(1, 90))
    for row in runs((entry(7, i, number(2, 1 + i % 20000), number(2, 1 + i // 20000), common)
                     for i in range(1, 400000)), 64 << 10):
        yield interned(row)


def deep(n_threads, depth, name=b"f"):
    yield interned(entry(5, 1, field(2, name)), entry(6, 1, number(2, 1), number(4, 1)), start=True)
    yield interned(stack_of(1, [1] * depth))
    yield from each(n_threads, lambda i: sample(time=i, stack=1, tid=i))


def deep_stacks():  # one stack of 8,192 calls in 100,000 threads
    yield from deep(100000, 8192)


def long_lines():  # 8,000 calls of a long name in 2,000 threads
    yield from deep(2000, 8000, b"long" * 1000)


def one_line():  # deeper, by inlined calls: a line of gigabytes
    yield interned(entry(17, 1, field(2, b"x")), entry(19, 1, number(7, 1)),
                   entry(6, 1, number(3, 1), number(4, 1)), stack_of(1, [1] * 8192), start=True)
    line = field(2, field(1, b"long" * 1000))
    yield packet(field(61, field(1, b"/x") + field(3, number(1, 1) + line * 256)))
    yield sample(stack=1)


def inlined():  # 256 inlined calls at an address, and 200,000 frames there
    yield interned(entry(17, 1, field(2, b"x")), entry(19, 1, number(7, 1)), start=True)
    for row in runs((entry(6, i, number(3, 1), number(4, 1), number(6, i)) for i in range(1, 200000)),
                    64 << 10):
        yield interned(row)
    yield packet(field(61, field(1, b"/x") + field(3, number(1, 1) + field(2, field(1, b"i")) * 256)))
    yield interned(stack_of(1, range(1, 8000))) + sample(stack=1)


def wide():  # a caller of a million functions
    for i, row in enumerate(lists(5, 800000, lambda i: number(1, i) + field(2, b"%x" % i))):
        yield row
    for row in runs((entry(6, i, number(2, i), number(4, i)) + stack_of(i, [1, i])
                     for i in range(1, 800000)), 64 << 10):
        yield interned(row)
    yield from each(800000, lambda i: sample(time=i, stack=i))


def sequences():
    yield from each(70000, lambda i: packet(number(10, i), CLEAR))


def symbols():
    yield interned(entry(17, 1, field(2, b"x")), entry(19, 1, number(7, 1)), start=True)
    for row in runs((field(3, number(1, i) + field(2, number(3, i))) for i in range(1, 2300000)), 64 << 10):
        yield packet(field(61, field(1, b"/x") + row))


def lines():
    yield interned(entry(17, 1, field(2, b"x")), entry(19, 1, number(7, 1)), start=True)
    row = field(3, number(1, 1) + field(2, number(3, 1)) * 256)
    for _ in range(20000):
        yield packet(field(61, field(1, b"/x") + row))


def figures():
    yield from each(80000, lambda i: packet(field(60001, field(1, field(1, b"%x" % i)))))


def statistics():  # of CPUs that lost records
    lost = number(17, 1)
    yield from each(80000, lambda i: packet(ON, field(66, number(1, i) + lost)))


def writers():  # of a tracing service
    row = b"".join(field(18, number(1, i) + number(4, 1)) for i in range(2000000))
    yield packet(field(35, row[:31 << 20]))


def clocks():
    one = b"".join(field(1, number(1, c) + number(2, 1)) for c in (1, 2, 3, 4, 5, 6))
    yield packet(field(6, one)) * 200000


def sequence_clocks():
    one = field(1, number(1, 6) + number(2, 1)) + b"".join(field(1, number(1, c) + number(2, 1)) for c in range(64, 95))
    yield from each(60000, lambda i: packet(number(10, i), field(6, one)))


def followers():
    yield interned(start=True)
    row = packet(ON, NEEDS, field(66, number(7, 1) * 32))
    yield from runs(row for _ in range(900000))


def cpus():
    yield interned(start=True)
    for s in range(1, 20):
        on = number(10, s)
        yield packet(on, CLEAR)
        yield from each(65000, lambda i: packet(on, NEEDS, field(66, number(1, i) + number(6, 1))))


def resets():  # names that are demangled again and again
    name = b"_ZN" + b"1a" * 400 + b"E" + b"S_" * 200
    row = interned(*(entry(5, i, field(2, name)) for i in range(1, 50)), start=True)
    yield from runs(row for _ in range(40000))


def substitutions():  # a name that stands for gigabytes of text
    digit = lambda i: b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i:i + 1]
    pairs = b"".join(b"S_IS%s_S%s_E" % (digit(i), digit(i)) for i in range(20))
    yield from lists(5, 200000, lambda i: number(1, i) + field(2, b"_Z1fSt4pairIiiE" + pairs + b"A%d_i" % i))


def renamed():  # a process under a million names
    yield from each(1300000, lambda i: packet(field(2, field(1, number(1, 7) + number(60001, i) + field(3, b"x")))))


KINDS = (empty, large_packet, nested, samples, processes, threads, sampled_threads, names, long_names, paths, notes,
         mappings, frames, interned_numbers, dense_numbers, callstacks, deep_stacks, long_lines, one_line, inlined, wide,
         sequences, symbols, lines, figures, statistics, writers, clocks, sequence_clocks, followers, cpus, resets,
         substitutions, renamed)


def write(kind, path, plain=False):
    with open(path, "wb") as out:
        out.write(sample())
        for piece in kind():
            out.write(piece if plain else field(1, field(50, zlib.compress(piece, 1))))


if __name__ == "__main__":
    by_name = {k.__name__: k for k in KINDS}
    if len(sys.argv) < 3 or sys.argv[1] not in by_name:
        sys.exit("kinds: " + " ".join(by_name))
    write(by_name[sys.argv[1]], sys.argv[2], len(sys.argv) > 3)
