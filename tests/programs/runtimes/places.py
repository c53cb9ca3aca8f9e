"""places.py SECONDS - functions with frames at the same places: decorated ones, generators, methods, recursion; places.py --check reads
folded stacks of it and prints the share of stacks in which a function calls one that it does not call in the source (impossible), and
of those in which the interpreter's loop stands for some (lacking)."""
import functools
import re
import sys
import time


def traced(function):
    @functools.wraps(function)
    def wrapper(*args, **keywords):
        return function(*args, **keywords)
    return wrapper


@traced
def decorated(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


def inner(n):
    for i in range(n):
        yield i * 2


def outer(n):
    yield from inner(n)


def generated(n):
    return sum(x for x in outer(n))


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def recursive(n):
    return fibonacci(n)


class Shape:
    def __init__(self, size):
        self.size = size

    def area(self):
        return self.computed()

    def computed(self):
        total = 0.0
        for i in range(200):
            total += self.size * i
        return total


def shapes(n):
    return sum(shape.area() for shape in [Shape(2), Shape(3)] * n)


def is_sorted(n):
    return sorted(range(n), key=lambda x: -x)


def work():
    generated(3000)
    decorated(8000)
    recursive(14)
    shapes(8)
    is_sorted(2000)


def main():
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        work()


# ---- the check: what the source above states ----

LOOP = "_PyEval_EvalFrameDefault"
CALLERS = {
    "main": {"<module>"}, "work": {"main"}, "generated": {"work"}, "recursive": {"work"}, "shapes": {"work"}, "is_sorted": {"work"},
    "traced.<locals>.wrapper": {"work"}, "decorated": {"traced.<locals>.wrapper"}, "outer": {"generated.<locals>.<genexpr>"},
    "inner": {"outer"}, "generated.<locals>.<genexpr>": {"generated"}, "fibonacci": {"fibonacci", "recursive"},
    "shapes.<locals>.<genexpr>": {"shapes"}, "Shape.area": {"shapes.<locals>.<genexpr>"}, "Shape.__init__": {"shapes"},
    "Shape.computed": {"Shape.area"}, "is_sorted.<locals>.<lambda>": {"is_sorted"},
}


def check():
    total = impossible = lacking = 0
    wrong = {}
    for line in sys.stdin:
        stack, _, weight = line.rpartition(" ")
        frames = [re.sub(r" \[python\]$", "", frame) for frame in stack.split(";") if frame.endswith(" [python]") or frame == LOOP]
        frames = [re.sub(r"^<module.*", "<module>", frame) for frame in frames]
        if "work" not in frames:
            continue
        pairs = [pair for pair in zip(frames, frames[1:]) if LOOP not in pair and pair[0] not in CALLERS.get(pair[1], ())]
        total += int(weight)
        impossible += int(weight) * bool(pairs)
        lacking += int(weight) * (LOOP in frames)
        for pair in pairs:
            wrong[pair] = wrong.get(pair, 0) + int(weight)
    for name, n in (("impossible", impossible), ("lacking", lacking)):
        print("%s %d %.2f" % (name, total, 100 * n / max(total, 1)))
    for pair, n in sorted(wrong.items(), key=lambda item: -item[1])[:5]:
        print("# %d %s -> %s" % (n, *pair))


if sys.argv[1] == "--check":
    check()
else:
    main()
