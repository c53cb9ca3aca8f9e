"""leaves.py SECONDS - C functions that are each called by one Python function, from several callers; leaves.py --check reads folded
stacks and prints the shares that are right: of the innermost Python function, of the outermost ones, of calls between them."""
import binascii
import sys
import time
import zlib

DATA = bytes(range(256)) * 200


def crc(data):
    return zlib.crc32(data)


def adler(data):
    return zlib.adler32(data)


def hexed(data):
    return binascii.hexlify(data)


def spin(n):
    y = 1
    for _ in range(n):
        y = (y * 6364136223846793005 + 1) & 0xFFFFFFFFFFFF
    return y


class Pair:
    def one(self, n):
        return crc(DATA) + adler(DATA) + spin(n)

    def two(self, n):
        return len(hexed(DATA)) + spin(n)


def generate(pair, n):
    for _ in range(n):
        yield pair.one(50) + pair.two(50)


def left(pair):
    return sum(generate(pair, 2)) + spin(30)


def right(pair):
    return max(map(lambda n: pair.one(n), (20, 30))) + spin(30)


def main():
    end = time.monotonic() + float(sys.argv[1])
    pair = Pair()
    while time.monotonic() < end:
        left(pair)
        right(pair)


# ---- the check: what the source above states ----

LEAVES = {"zlib_crc32": "crc", "zlib_adler32": "adler", "binascii_hexlify": "hexed", "builtin_sum": "left", "builtin_max": "right"}
CALLERS = {
    "left": {"main"}, "right": {"main"}, "generate": {"left"}, "Pair.one": {"generate", "right.<locals>.<lambda>"},
    "Pair.two": {"generate"}, "right.<locals>.<lambda>": {"right"}, "crc": {"Pair.one"}, "adler": {"Pair.one"},
    "hexed": {"Pair.two"}, "spin": {"Pair.one", "Pair.two", "left", "right"},
}


def check():
    total = {"leaf": 0, "outermost": 0, "calls": 0}
    right_ones = dict(total)

    def count(what, weight, is_right):
        total[what] += weight
        right_ones[what] += weight * is_right

    for line in sys.stdin:
        stack, _, weight = line.rpartition(" ")
        frames, weight = stack.split(";"), int(weight)
        suffix = " [python]"
        functions = [frame[:-len(suffix)] for frame in frames if frame.endswith(suffix)]
        if "main" not in functions or functions[0] == "_find_and_load":  # the site module has a main(), too
            continue
        for frame in reversed(frames):
            if frame.endswith(suffix):
                break
            if frame in LEAVES:
                count("leaf", weight, functions[-1] == LEAVES[frame])
                break
        count("outermost", weight, functions[:2] == ["<module>", "main"] and functions[2:3] in ([], ["left"], ["right"]))
        for caller, callee in zip(functions, functions[1:]):
            count("calls", weight, caller in CALLERS.get(callee, {caller}))
    for what in total:
        print("%s %d %.2f" % (what, total[what], 100 * right_ones[what] / max(total[what], 1)))


if sys.argv[1] == "--check":
    check()
else:
    main()
