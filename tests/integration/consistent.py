"""consistent.py PERFWIND TRACE VERDICT - one recording reported in five ways, which must agree.

The verdict's JSON (exactly the keys that are promised), the folded stacks, pprof's profile, the flame graph page and the
report are made of one trace: the numbers of samples are the same in all, and so is the hottest function.  Prints what is
wrong, one line each; the status is 0 when nothing is.
"""
import gzip
import json
import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

KEYS = ["file", "bytes", "duration_s", "samples", "complete", "stacks", "freed_functions", "lost", "skipped", "cpu_accounted",
        "self", "modules_without_symbols"]
STACKS = ["whole", "unchecked", "lacking_functions", "cut", "failed"]
LOST = ["samples", "sideband", "records_seen", "throttled_s", "unwritten"]
SELF = ["cpu_s", "us_per_sample", "peak_rss_kb"]
DAMAGE = ["bytes_not_read", "bad_records", "unproved_modules", "unread_modules"]
MODULE = ["path", "build_id", "samples"]
COMMANDS = {
    "losses": ["losses"],
    "folded": ["export", "--to", "folded", "-o", "-"],
    "pprof": ["export", "--to", "pprof", "-o", "-"],
    "page": ["export", "--to", "html", "-o", "-"],
    "report": ["report", "--limit", "0"],
    "tree": ["report", "--tree"],
    "process": ["report", "--by", "process"],
    "thread": ["report", "--by", "thread"],
    "module": ["report", "--by", "module"],
}
wrong = []


def expect(what, *detail):
    if not what:
        wrong.append(" ".join(str(d) for d in detail))


def whole_number(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def check_verdict(v):
    """Keys in their order, types, and the sums."""
    expect([key for key in v if key not in ("damage", "waits")] == KEYS, "keys:", list(v))
    if "damage" in v:  # of an import
        expect(list(v)[-1] == "damage" and list(v["damage"]) == DAMAGE, "keys of damage:", v["damage"])
        expect(all(whole_number(n) for n in v["damage"].values()), "damage:", v["damage"])
    expect(list(v["stacks"]) == STACKS, "keys of stacks:", list(v["stacks"]))
    expect(list(v["lost"]) == LOST, "keys of lost:", list(v["lost"]))
    expect(list(v["self"]) == SELF, "keys of self:", list(v["self"]))
    for module in v["modules_without_symbols"]:
        expect(list(module) == MODULE, "keys of a module:", list(module))
        expect(re.fullmatch("([0-9a-f]{2})*", module["build_id"]), "a build id:", module["build_id"])
    for reasons in (v["stacks"]["failed"], v["skipped"]):
        expect(all(whole_number(n) and n for n in reasons.values()), "reasons:", reasons)
    for n in (v["bytes"], v["samples"], v["freed_functions"], v["stacks"]["whole"], v["stacks"]["cut"], v["lost"]["samples"],
              v["lost"]["sideband"], v["lost"]["records_seen"], v["lost"]["unwritten"], v["self"]["peak_rss_kb"]):
        expect(whole_number(n), "not a whole number:", n)
    outcomes = v["stacks"]["whole"] + v["stacks"]["unchecked"] + v["stacks"]["cut"] + sum(v["stacks"]["failed"].values())
    expect(0 <= v["stacks"]["lacking_functions"] <= outcomes, "lacking_functions:", v["stacks"]["lacking_functions"])
    expect(v["samples"] + v["lost"]["unwritten"] == outcomes, "samples", v["samples"], "but outcomes", outcomes)
    expect(v["cpu_accounted"] is None or 0 <= v["cpu_accounted"] < 2, "cpu_accounted:", v["cpu_accounted"])
    expect(v["duration_s"] > 0 and v["self"]["cpu_s"] >= 0, "times:", v["duration_s"], v["self"])


def fields(data):
    """A protobuf message as (number, value) pairs; value: int, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        elif tag & 7 == 2:
            size = varint()
            yield tag >> 3, data[at:at + size]
            at += size
        else:
            raise ValueError("wire type %d" % (tag & 7))


def packed(data):
    return [value for number, value in fields(b"".join(b"\x08" + one for one in split_varints(data)))]


def split_varints(data):
    return re.findall(rb"[\x80-\xff]*[\x00-\x7f]", data)


def read_pprof(data):
    """Sum of the first kind of value that counts samples, and the names of all functions."""
    strings, kinds, sums, functions = [], [], Counter(), []
    for number, value in fields(gzip.decompress(data)):
        if number == 6:
            strings.append(value.decode())
        elif number == 1:
            kinds.append(dict(fields(value)).get(1, 0))
        elif number == 5:
            functions.append(dict(fields(value)).get(2, 0))
        elif number == 2:
            for inner, payload in fields(value):
                if inner == 2:
                    for i, n in enumerate(packed(payload)):
                        sums[i] += n
    expect(strings and strings[0] == "", "pprof: the first string is not empty")
    names = [strings[k] for k in kinds]
    count = sums[names.index("samples")] if "samples" in names else -1
    return count, {strings[f] for f in functions}


def outputs(perfwind, trace):
    """What each command prints: two run at a time, no more, as recordings of other scripts go on meanwhile."""

    def run(arguments):
        done = subprocess.run([perfwind, *arguments, trace], capture_output=True, check=False)
        expect(done.returncode == 0 or arguments == ["losses"], *arguments, "ended with", done.returncode,
               done.stderr.decode(errors="replace"))
        return done.stdout

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(COMMANDS, pool.map(run, COMMANDS.values())))


def main():
    perfwind, trace, verdict = sys.argv[1:4]
    with open(verdict, encoding="utf-8") as f:
        v = json.loads(f.read().strip().splitlines()[-1])
    check_verdict(v)
    printed = outputs(perfwind, trace)
    # A trace that is complete has its end mark; any other is reported to have none.
    ended = b"perfwind_end_missing" not in printed["losses"]
    expect(v["complete"] == ended, "the verdict has complete:", v["complete"], "and the trace has its end:", ended)
    expect(v["bytes"] == os.stat(trace).st_size, "bytes:", v["bytes"], "but the file has", os.stat(trace).st_size)
    leaves, total = Counter(), 0
    for line in printed["folded"].decode(errors="replace").splitlines():
        found = re.fullmatch(r"(.+) (\d+)", line)
        expect(found, "folded: a strange line:", line[:200])
        if found:
            total += int(found[2])
            leaves[found[1].split(";")[-1]] += int(found[2])
    expect(total == v["samples"], "folded has", total, "samples, the verdict", v["samples"])
    report = printed["report"].decode(errors="replace")
    shown = re.search(r"^Samples +([\d,]+)", report, re.M)
    expect(shown and int(shown[1].replace(",", "")) == v["samples"], "the report has", shown and shown[1], "samples")
    for by in ("process", "thread", "module"):
        expect(len(printed[by]) > 50, "report by", by, "is empty")
    count, functions = read_pprof(printed["pprof"])
    expect(count == v["samples"], "pprof has", count, "samples, the verdict", v["samples"])
    page = printed["page"].decode(errors="replace")
    expect(page.rstrip().endswith("</html>"), "the page does not end")
    outside = re.findall(r"""(?:src|href)\s*=\s*["']?(?!#)[^"'> ]+|url\([^)]*\)|@import""", page)
    expect(not outside, "the page needs the network:", outside[:3])
    if leaves:
        hottest = leaves.most_common(1)[0][0]
        name = re.sub(r"_\[k\]$", "", hottest)
        if re.fullmatch(r"\w+", name):
            expect(name in report, "the report lacks", name)
            expect(name in functions, "pprof lacks", name)
            expect(name in page, "the page lacks", name)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


sys.exit(main())
