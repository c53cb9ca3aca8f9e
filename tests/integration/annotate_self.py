#!/usr/bin/env python3
"""annotate_self.py PERFWIND TRACE - the figures of `annotate FUNC` are those of the report, for the 40 largest functions: self, and the
total as the sum of self, inlined and called.  The lines add up to the figures."""
import json
import subprocess
import sys

perfwind, trace = sys.argv[1:]


def run(*arguments):
    return subprocess.run([perfwind, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)


rows = json.loads(run("report", "--json", "--sort", "total", trace).stdout)["rows"]
names = [row["function"] for row in rows]
rows = [row for row in rows if names.count(row["function"]) == 1 and row["frame_kind"] not in ("", "kernel")]
own = inlined = 0
for row in rows[:40]:
    result = run("annotate", "--json", row["function"], trace)
    if result.returncode:  # all of it is in calls
        assert row["self"] == 0 and b"has no sample of its own" in result.stderr, (row, result.stderr)
        continue
    found = json.loads(result.stdout)
    assert found["self_samples"] == row["self_samples"] and found["self"] == row["self"], (row, found)
    assert sum(found[k + "_samples"] for k in ("self", "inlined", "called")) == row["total_samples"], (row, found)
    assert sum(found[k] for k in ("self", "inlined", "called")) == row["total"], (row, found)
    assert found["weight"] == found["self"] + found["inlined"], found
    assert sum(line["self"] for line in found["lines"]) == found["self"], found
    assert sum(line["weight"] for line in found["lines"]) == found["weight"], found
    assert sum(line["weight"] for line in found["inlined_lines"]) >= found["inlined"], found
    own += found["self"] > 0
    inlined += found["inlined"] > 0
print(f"{own} functions with samples of their own, {inlined} with inlined ones")
assert own >= 3, own
