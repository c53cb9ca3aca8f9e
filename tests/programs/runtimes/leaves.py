"""leaves.py SECONDS [TIMES] - C functions that are each called by one Python function, from several callers; leaves.py --check [LANGUAGE] reads
folded stacks of leaves.py, leaves.php, leaves.rb or leaves.js and prints the shares that are right: of the innermost function of the language, of
the outermost ones, of calls between them, of calls without other code between, of samples in these C functions that have all callers (chain), of
stacks that could be some of a possible one's functions (order); of JavaScript the share of samples that have a name for the innermost one, too."""
import binascii
import re
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
    times = []
    while time.monotonic() < end:
        times.append(time.clock_gettime_ns(time.CLOCK_BOOTTIME))
        left(pair)
        times.append(time.clock_gettime_ns(time.CLOCK_BOOTTIME))
        right(pair)
    if len(sys.argv) > 2:
        with open(sys.argv[2], "w", encoding="ascii") as file:
            print(*times, file=file)


# ---- the check: what the source above states ----

class Python:
    # (Of a stripped Python those of libz have names.)
    leaves = {"zlib_crc32": "crc", "crc32_z": "crc", "zlib_adler32": "adler", "adler32_z": "adler", "binascii_hexlify": "hexed", "builtin_sum": "left", "builtin_max": "right"}
    callers = {
        "left": {"main"}, "right": {"main"}, "generate": {"left"}, "Pair.one": {"generate", "right.<locals>.<lambda>"},
        "Pair.two": {"generate"}, "right.<locals>.<lambda>": {"right"}, "crc": {"Pair.one"}, "adler": {"Pair.one"},
        "hexed": {"Pair.two"}, "spin": {"Pair.one", "Pair.two", "left", "right"},
    }
    outermost = ["<module leaves.py>", "main"]
    inner = {}  # functions in C, which may be missing


class Php:
    """Functions in C are shown where they are known; the leaf is the innermost other one."""
    leaves = {"deflate": "crushed", "inflate": "expanded", "pcre2_match_8": "matched"}
    callers = {
        "left": {"main"}, "right": {"main"}, "generate": {"left"}, "Pair::one": {"generate", "{closure}"},
        "Pair::two": {"generate"}, "{closure}": {"right", "array_map"}, "crushed": {"Pair::one"}, "matched": {"Pair::one"},
        "expanded": {"Pair::two"}, "spin": {"Pair::one", "Pair::two", "left", "right"},
    }
    outermost = ["{main}", "main"]
    inner = {"gzcompress": "crushed", "gzuncompress": "expanded", "preg_match": "matched", "array_map": "right",
             "microtime": "main"}


class Ruby:
    """Methods have the class that defines them; blocks have none."""
    leaves = {"deflate": "Packing#crushed", "inflate": "Packing.expanded", "crc32_z": "Object#summed"}
    callers = {
        "Object#left": {"Object#main"}, "Object#right": {"Object#main"}, "Object#generate": {"Object#left"},
        "Pair#one": {"block in generate", "block in right"}, "Pair.two": {"block in generate"},
        "block in right": {"Object#right", "Array#map", "Array#collect"},
        "block in generate": {"Object#generate", "Integer#times"}, "block in left": {"block in generate"},
        "Packing#crushed": {"Pair#one"}, "Object#summed": {"Pair#one"}, "Packing.expanded": {"Pair.two"},
        "Object#spin": {"Pair#one", "Pair.two", "Object#left", "Object#right", "block in left"},
    }
    outermost = ["<main>", "Object#main"]
    threads = ["block (2 levels) in <main>", "Object#main"]
    # (The same C function is Zlib::Deflate's, too; Array#map and Array#collect are one.)
    inner = {"Zlib.deflate": "Packing#crushed", "Zlib::Deflate.deflate": "Packing#crushed", "Zlib.inflate": "Packing.expanded",
             "Zlib::Inflate.inflate": "Packing.expanded", "Zlib.crc32": "Object#summed", "Integer#times": "Object#generate",
             "Array#map": "Object#right", "Array#collect": "Object#right", "Process.clock_gettime": "Object#main"}


class Js:
    """V8's own functions have their class and arguments; Node.js calls the file's own function."""
    suffix = "_[j]"
    first = "(anonymous leaves.js:1)"
    arrow = "(anonymous leaves.js:%d)" % next(
        (i for i, line in enumerate(open(sys.path[0] + "/leaves.js", encoding="utf-8"), 1) if ".map(n =>" in line), 0)
    leaves = {"v8::internal::JsonStringify": "written", "v8::internal::Builtin_JsonParse": "parsed"}
    callers = {
        "left": {"main"}, "right": {"main"}, "generate": {"left"}, "one": {"generate", arrow}, "two": {"generate"},
        arrow: {"right"}, "written": {"one"}, "parsed": {"two"}, "spin": {"one", "two", "left", "right"},
    }
    outermost = [first, "main"]
    inner = {}


class Trampolines(Python):
    """With -X perf: CPython's trampolines, py::NAME:FILE, name the functions."""
    suffix = " [python]"


class PythonLate(Python):
    """Frames that are read after the sample."""
    loop = "_PyEval_EvalFrameDefault"  # stands for callers that are not known
    suffix = " [python]"


LANGUAGES = {"python": Python, "python-late": PythonLate, "trampolines": Trampolines, "php": Php, "ruby": Ruby, "js": Js}


def adjacent(frames, suffix):
    """Calls without other code between: where callers are not known, the interpreter's loop stands for them."""
    for caller, callee in zip(frames, frames[1:]):
        if caller.endswith(suffix) and callee.endswith(suffix):
            yield caller[:-len(suffix)], callee[:-len(suffix)]


def unnamed(frame):
    """A frame of JavaScript without a name: of compiled code, of the interpreter, of a function with a name that was not read."""
    return frame.startswith("[perf-") or frame in ("[js]", "Builtins_InterpreterEntryTrampoline")


def outer(table):
    """Of each function those that may be further out in a stack."""
    direct = {**table.callers, **{name: {caller} for name, caller in table.inner.items()}}
    result = {name: set(callers) for name, callers in direct.items()}
    for _ in result:
        for callers in result.values():
            callers.update(*(direct.get(caller, ()) for caller in set(callers)))
    return result


def check(language):
    table = LANGUAGES[language]
    further_out = outer(table)
    total = {"leaf": 0, "outermost": 0, "calls": 0, "inner": 0, "named": 0, "adjacent": 0, "chain": 0, "order": 0}
    right_ones = dict(total)

    def count(what, weight, is_right):
        total[what] += weight
        right_ones[what] += weight * is_right

    for line in sys.stdin:
        stack, _, weight = line.rpartition(" ")
        stack = re.sub(r"\{closure:[^;]*\}", "{closure}", stack)  # PHP 8.4 on
        frames, weight = stack.split(";"), int(weight)
        if table is Trampolines:
            frames = [re.sub(r"^py::<module>:.*/([^/]*) \[python\]$", r"py::<module \1>:", frame) for frame in frames]
            frames = [re.sub(r"^py::([^:;]*):.*", r"\1 [python]", frame) for frame in frames]
        suffix = getattr(table, "suffix", " [%s]" % language)
        named = [frame[:-len(suffix)] for frame in frames if frame.endswith(suffix)]
        functions = [name for name in named if name not in table.inner]
        if language == "js" and table.first in functions:
            functions = functions[functions.index(table.first):]
        main = table.outermost[1]
        owner = next((table.leaves[frame] for frame in frames if frame in table.leaves), None)
        if owner:
            count("chain", weight, functions[:2] == table.outermost and functions[-1] == owner and
                  all(caller in table.callers[callee] for caller, callee in zip(functions[1:], functions[2:]) if callee in table.callers))
        if main not in functions or functions[0] == "_find_and_load":  # the site module has a main(), too
            continue
        for frame in reversed(frames):
            if frame.endswith(suffix) and frame[:-len(suffix)] not in table.inner:
                break
            name = frame.partition("(")[0] if language == "js" else frame
            if name in table.leaves:
                count("leaf", weight, functions[-1] == table.leaves[name])
                break
        if language == "js":
            count("named", weight, not any(unnamed(frame) for frame in frames[frames.index(named[-1] + suffix):]))
        third = functions[2:3]
        if main + suffix in frames[:-1] and frames[frames.index(main + suffix) + 1] == getattr(table, "loop", None):
            third = []  # not known
        count("outermost", weight, functions[:2] in (table.outermost, getattr(table, "threads", None)) and [name.partition("#")[2] or name for name in third] in ([], ["left"], ["right"]))
        for caller, callee in zip(functions, functions[1:]) if language in ("python", "python-late", "trampolines", "js") else adjacent(frames, suffix):
            count("calls", weight, caller in table.callers.get(callee, {caller}))
        count("order", weight, all(caller in further_out.get(callee, {caller}) for caller, callee in zip(named[named.index(main):], named[named.index(main) + 1:])))
        for caller, callee in adjacent(frames, suffix):
            count("adjacent", weight, callee in table.inner or caller in table.callers.get(callee, {caller}))
            if callee in table.inner:
                count("inner", weight, caller == table.inner[callee])
    for what in total:
        print("%s %d %.2f" % (what, total[what], 100 * right_ones[what] / max(total[what], 1)))


if sys.argv[1] == "--check":
    check(sys.argv[2] if len(sys.argv) > 2 else "python")
else:
    main()
