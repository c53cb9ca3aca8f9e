#!/usr/bin/env python3
"""structure.py BUILD [--list] - how the modules of each folder call one another, from the symbols of BUILD's objects.

A module is a header and the .c files of its name: reader.h has reader.c, reader-event.c ..., except where those
have a header of their own.  Prints one line a test:

  circles        no two modules of a folder call one another, directly or through others of that folder
  narrow         for information: the share of exported functions that one other file of the same folder alone calls, and
                 of these the ones that no test calls either: they are not an interface
  unused         no function is exported that its own file alone uses: it is static
  private        the number of -private.h headers: below PRIVATE
"""
import collections, os, re, subprocess, sys

NARROW, PRIVATE = 12, 6

build = sys.argv[1]
listing = "--list" in sys.argv
tracked = subprocess.run(["git", "ls-files", "*.c", "*.h"], capture_output=True, text=True, check=True).stdout.split()
if not tracked:
    tracked = [os.path.relpath(os.path.join(d, f)) for d, _, fs in os.walk(".") for f in fs if f.endswith((".c", ".h"))]
product = [f for f in tracked if not f.startswith(("tests/", "libc-hook/", "libmarks/", "build"))]
headers = {f[:-2] for f in product if f.endswith(".h") and not f.endswith("-private.h")}


def module(source):
    name = source[:-2]
    while name not in headers and "-" in os.path.basename(name):
        name = name[: name.rindex("-")]
    return name if name in headers else source[:-2]


objects = {}
for source in (f for f in product if f.endswith(".c") and not f.endswith(".bpf.c")):
    path = objects[source] = os.path.join(build, source[:-2] + ".o")
    if not os.path.exists(path):
        print("skip structure: %s is not built" % path)
        sys.exit()
symbols = collections.defaultdict(list)
for line in subprocess.run(["nm", "-A", *objects.values()], capture_output=True, text=True).stdout.splitlines():
    path, _, symbol = line.partition(":")
    symbols[path].append(symbol.split()[-2:])

defined, wanted = {}, {}
for source, path in objects.items():
    own, other = set(), set()
    for kind, name in symbols[path]:
        (own if kind in "TDBRV" else other if kind == "U" else set()).add((name, kind))
    defined[source] = {n for n, k in own}
    functions = {n for n, k in own if k == "T"}
    wanted[source] = ({n for n, k in other}, functions)

home = {name: source for source, names in defined.items() for name in names}
users = collections.defaultdict(set)
calls = collections.defaultdict(set)
for source, (names, _) in wanted.items():
    for name in names:
        if name in home:
            users[name].add(source)
            a, b = module(source), module(home[name])
            if a != b and os.path.dirname(a) == os.path.dirname(b):
                calls[a].add((b, name))

# Strongly connected components (Tarjan).
index, low, stack, circles = {}, {}, [], []


def visit(node):
    index[node] = low[node] = len(index)
    stack.append(node)
    for other, _ in calls[node]:
        if other not in index:
            visit(other)
            low[node] = min(low[node], low[other])
        elif other in stack:
            low[node] = min(low[node], index[other])
    if low[node] == index[node]:
        found = []
        while True:
            found.append(stack.pop())
            if found[-1] == node:
                break
        if len(found) > 1:
            circles.append(sorted(found))


sys.setrecursionlimit(10000)
for node in list(calls):
    if node not in index:
        visit(node)
text = "; ".join(" ".join(c) for c in sorted(circles))
print("not ok circles: %s" % text if circles else "ok circles")
if listing:
    for c in circles:
        for a in c:
            for b, name in sorted(calls[a]):
                if b in c:
                    print("   ", a, "->", b, name)

tested = set()
for f in (f for f in tracked if f.startswith(("tests/unit/", "tests/fuzz/", "tests/differential/"))):
    with open(f, encoding="utf-8") as text:
        tested.update(re.findall(r"\b[a-z]\w+", text.read()))

exported = narrow = untested = 0
unused = []
by_folder = collections.Counter()
for source, (_, functions) in wanted.items():
    for name in functions:
        exported += 1
        files = users[name]
        if not files and name not in tested and name != "main":
            unused.append("%s of %s" % (name, source))
        if len(files) == 1 and os.path.dirname(next(iter(files))) == os.path.dirname(source):
            narrow += 1
            if name not in tested:
                untested += 1
                by_folder[os.path.dirname(source)] += 1
            if listing:
                print("    narrow", name, source, "<-", next(iter(files)), "" if name in tested else "(no test)")
print("not ok unused: %s" % ", ".join(unused) if unused else "ok unused")
share = 100 * narrow / exported
print("    narrow: %d of %d exported functions (%.1f %%) are called from one other file of their folder alone; "
      "%d of them (%.1f %%, goal %d %%) by no test either: %s" %
      (narrow, exported, share, untested, 100 * untested / exported, NARROW,
       ", ".join("%s %d" % x for x in by_folder.most_common())))
n = sum(f.endswith(("-private.h", "_private.h")) for f in product)
print("ok private" if n < PRIVATE else "not ok private: %d headers" % n)
unowned = [f for f in product if f.endswith(".c") and f[:-2] not in headers]
if listing:
    print("    without a header of their own:", len(unowned), "of", sum(f.endswith(".c") for f in product))
