#!/usr/bin/env python3
"""annotate_agrees.py PERF JSON - `perf annotate --stdio -l` and `perfwind annotate --json` over one recording: the same share for each
instruction, and the same five hottest lines."""
import json
import re
import sys

perf = open(sys.argv[1], encoding="utf-8").read()
ours = json.load(open(sys.argv[2], encoding="utf-8"))

summary = re.findall(r"^ +(\d+\.\d+) +\S*?([^/\s]+):(\d+)$", perf, re.M)[:5]
lines = {}  # perf counts an inlined call at its own line
for line, weight in [(line, line["self"]) for line in ours["lines"]] + [(line, line["weight"]) for line in ours["inlined_lines"]]:
    place = ((line["file"] or "").rsplit("/", 1)[-1], line["line"])
    lines[place] = lines.get(place, 0) + 100 * weight / ours["weight"]
assert len(summary) == 5, summary
for percent, name, number in summary:
    mine = lines.get((name, int(number)))
    # perf adds up only instructions that have 0.5 % or more
    assert mine is not None and -0.01 <= mine - float(percent) < 4, (name, number, percent, mine)
hottest = sorted(lines.values(), reverse=True)[:5]
assert hottest[4] - float(summary[4][0]) < 4, (hottest, summary)

shares = {int(address, 16): float(percent) for percent, address in re.findall(r"^ +(\d+\.\d+) :\s+([0-9a-f]+):", perf, re.M)}
instructions = {i["address"]: i for part in ours["parts"] for i in part["instructions"]}
assert sum(1 for share in shares.values() if share) >= 5, shares
for address, share in shares.items():
    assert abs(share - instructions[address]["percent"]) < 0.01, (hex(address), share, instructions[address])
if ours["note"] is None:
    assert all(i["text"] for i in instructions.values())
