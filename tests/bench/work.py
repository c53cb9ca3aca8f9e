#!/usr/bin/python3
"""work.py - what a real Python program does: the busy process of the benchmarks.

    work.py ROUNDS        a fixed amount of work, then prints "WALL CPU" in seconds (0: without end)

JSON, regular expressions, sorting with keys, classes with special methods, a recursive-descent interpreter, the
standard library's own parser, pickling.  Calls cross between Python and C again and again (keys of sorted(), functions
given to re.sub(), hooks of json), so its C stack is about as deep as in web and data programs: 20 to 80 frames.
"""
import ast
import functools
import json
import pickle
import random
import re
import sys
import time

WORDS = """a profiler that unwinds stacks while the program runs needs to be quick enough that nobody notices it and
careful enough that everybody believes it what it writes is small and what it says is true""".split()


class Amount:
    """A number with a unit: special methods are called from C."""

    def __init__(self, value, unit):
        self.value = value
        self.unit = unit

    def __lt__(self, other):
        return (self.unit, self.value) < (other.unit, other.value)

    def __eq__(self, other):
        return self.value == other.value and self.unit == other.unit

    def __hash__(self):
        return hash((self.value, self.unit))

    def __add__(self, other):
        return Amount(self.value + other.value, self.unit)


class Visitor(ast.NodeVisitor):
    def __init__(self):
        self.names = {}

    def visit_Name(self, node):
        self.names[node.id] = self.names.get(node.id, 0) + 1

    def visit_BinOp(self, node):
        self.generic_visit(node)


def make_document(rng, depth):
    if depth == 0:
        return {"id": rng.randrange(1 << 30), "text": " ".join(rng.choices(WORDS, k=8)), "ratio": rng.random()}
    return {"name": rng.choice(WORDS), "children": [make_document(rng, depth - 1) for _ in range(3)],
            "tags": rng.sample(WORDS, 4)}


def json_round_trip(rng):
    text = json.dumps(make_document(rng, 4), indent=1, sort_keys=True)
    found = []

    def hook(pairs):
        if "id" in pairs:
            found.append(pairs["id"])
        return pairs

    json.loads(text, object_hook=hook)
    return text, found


def rewrite(text):
    @functools.lru_cache(maxsize=64)
    def shorten(word):
        return "".join(sorted(set(word), key=lambda c: (c in "aeiou", c)))

    def replace(match):
        return shorten(match.group(0))

    text = re.sub(r"[a-z]{4,}", replace, text)
    return len(re.findall(r'"(\w+)":\s*(\d+|"[^"]*")', text))


def sort_amounts(rng):
    amounts = [Amount(rng.randrange(1000), rng.choice("kgml")) for _ in range(1500)]
    ordered = sorted(amounts)
    by_unit = {}
    for a in ordered:
        by_unit[a.unit] = by_unit[a.unit] + a if a.unit in by_unit else a
    return max(by_unit.values(), key=lambda a: a.value)


def parse_source(rng):
    lines = [f"def f{i}(a, b):\n    return (a + {rng.randrange(99)}) * b - g({i}, a) if a > b else [x * a for x in b]"
             for i in range(60)]
    visitor = Visitor()
    visitor.visit(ast.parse("\n".join(lines)))
    return visitor.names


def evaluate(node, depth=0):
    """A small interpreter; each level goes through map() and reduce(), that is through C."""
    if not isinstance(node, tuple):
        return node
    values = list(map(lambda n: evaluate(n, depth + 1), node[1:]))
    return functools.reduce((lambda a, b: (a + b) % 1000003) if node[0] == "+" else (lambda a, b: a * b % 1000003), values)


def make_expression(rng, depth):
    if depth == 0 or rng.random() < 0.15:
        return rng.randrange(1, 100)
    return (rng.choice("+*"), make_expression(rng, depth - 1), make_expression(rng, depth - 1))


def one_round(seed):
    rng = random.Random(seed)
    text, ids = json_round_trip(rng)
    names = parse_source(rng)
    best = sort_amounts(rng)
    total = sum(evaluate(make_expression(rng, 11)) for _ in range(3))
    blob = pickle.dumps((text, ids, names, best.value, total))
    return rewrite(text) + len(pickle.loads(blob))


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    wall, cpu = time.monotonic(), time.process_time()
    n = 0
    while not rounds or n < rounds:
        one_round(n)
        n += 1
    print(f"{time.monotonic() - wall:.6f} {time.process_time() - cpu:.6f}", flush=True)


if __name__ == "__main__":
    main()
