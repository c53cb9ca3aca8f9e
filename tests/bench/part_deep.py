"""part_deep.py - stacks deeper than the copy of 64 KB: at the sample (BPF: root), and read from the process shortly after it
(as an ordinary user has them).  Proved: whole, and no frame is a guess.  tests/programs/known-stack knows its stack."""
import os
import re
import shutil
import signal
import subprocess

import measure

TITLE = "stacks deeper than 64 KB: copied at the sample, and read after it"
INNER = 60
SCRIPT = """function(go_down n)
  if(n GREATER 0)
    math(EXPR m "${n} - 1")
    go_down(${m})
  endif()
endfunction()
foreach(i RANGE 1 %d)
  go_down(120)
endforeach()
"""


def samples(lines):
    """Each sample of `perfwind trace --dump`: whether it is whole, and its frames from the root as (name, guessed).  Names
    that were read late come at the end, by address (here without the module: few programs have two modules with a frame at one)."""
    names, late, frames, stacks, found, block, item, ids = {}, {}, {}, {}, [], None, {}, []
    for line in lines:
        indent, text = len(line) - len(line.lstrip()), line.strip()
        if indent == 4 and text.endswith("{"):
            block, item, ids = text[:-2], {}, []
        elif indent == 2 and text == "perf_sample {":
            block, item = "perf_sample", {}
        elif text == "}" and block and indent == (2 if block == "perf_sample" else 4):
            if block == "function_names":
                names[item["iid"]] = item.get("str", "").strip('"')
            elif block == "frames":
                frames[item["iid"]] = (names.get(item.get("function_name_id")), item.get("rel_pc"), "guessed" in item.get("kind_str", ""))
            elif block == "address_symbols":
                late[item["address"]] = item.get("function_name", "").strip('"')
            elif block == "callstacks":
                stacks[item["iid"]] = ids
            elif block == "perf_sample" and "callstack_iid" in item:
                found.append(("unwind_error" not in item, [frames[i] for i in stacks[item["callstack_iid"]]]))
            block = None
        elif block and ": " in text:
            key, _, value = text.partition(": ")
            if key == "frame_ids":
                ids.append(value)
            else:
                item[key] = value
    for whole, stack in found:
        yield whole, [(name or late.get(at), guessed) for name, at, guessed in stack]


def unmarked(frames, sequences):
    """Of the frames known_0 to known_7 that are not guesses: how many, and how many are not what the program states."""
    known = [(int(name[6]), guessed) for name, guessed in frames if name and name.startswith("known_") and name[6:].isdigit()]
    digits = "".join(str(d) for d, _ in known)
    if len(digits) < 2:
        return 0, 0
    # The innermost frames come from the sample's own copy; the others are counted from there, as a stack may be cut.
    wrong = [sum(not guessed for _, guessed in known)]
    inner = digits[-INNER:]
    for s in sequences:
        at = s.find(inner)
        while at >= 0:
            end = at + len(inner)
            wrong.append(sum(not guessed and (end - i <= 0 or s[end - i - 1] != str(d))
                             for i, (d, guessed) in enumerate(reversed(known))))
            at = s.find(inner, at + 1)
    return wrong[0], min(wrong)


def stats_of(lines):
    """The last value of each statistic of the trace."""
    stats, name = {}, None
    for line in lines:
        key, _, value = line.strip().partition(": ")
        if key == "name":
            name = value.strip('"')
        elif key == "value" and name:
            stats[name] = float(value)
    return stats


def record(setup, argv, exact, binary):
    trace = setup.file("deep.pftrace")
    without = {"PERFWIND_WITHOUT": "bpf"} if not exact and binary == setup.perfwind else {}
    env = dict(os.environ, **without)
    done = subprocess.run([binary, "record", "-q", "--no-daemon", "-F", "999", "-o", trace, "--", *argv], env=env,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise measure.BenchError(f"{' '.join(argv)}: status {done.returncode}: {done.stderr.strip()[-200:]}")
    dump = subprocess.run([setup.perfwind, "trace", "--dump", trace], capture_output=True, text=True, check=True).stdout.splitlines()
    sequences = [line for line in done.stdout.split() if len(line) >= 1000 and set(line) <= set("01234567")]
    result = dict.fromkeys(("samples", "whole", "proved", "unmarked", "wrong"), 0)
    for whole, frames in samples(dump):
        result["samples"] += 1
        result["whole"] += whole
        result["proved"] += whole and not any(guessed for _, guessed in frames)
        if sequences:
            n, wrong = unmarked(frames, sequences)
            result["unmarked"] += n
            result["wrong"] += wrong
    stats = stats_of(dump)
    result["failed"] = int(sum(v for k, v in stats.items() if k.startswith("stacks.failed.")))
    result["reads"] = {k[13:]: int(v) for k, v in stats.items() if k.startswith("memory_reads.")}
    return result


def programs(setup):
    """Name, command, and goals: (figure, exact way, user way)."""
    known = os.path.join(setup.build, "tests/programs/known-stack")
    if not os.path.exists(known):
        raise measure.BenchError("tests/programs/known-stack is not built (make programs)")
    yield "known-stack", [known, "2" if setup.quick else "6"], [("whole", 0.995, 0.995), ("right", 0.9999, 0.9999)]
    if shutil.which("cmake"):
        script = setup.file("deep.cmake")
        with open(script, "w") as f:
            f.write(SCRIPT % (600 if setup.quick else 3000))
        yield "cmake -P", ["cmake", "-P", script], [("whole", 0.99, 0.95), ("proved", 0.99, 0.75), ("failed", 0, 0)]
    if shutil.which("clang++"):
        source = setup.file("deep.cc")
        measure.write_source(source, 0, 1 if setup.quick else 4)
        yield "clang", ["clang++", "-std=c++17", "-O2", "-c", "-o", setup.file("deep.o"), source], [("whole", 0.999, 0.999)]


def share(result, figure):
    if figure == "right":
        return 1 - measure.ratio(result["wrong"], result["unmarked"]) if result["unmarked"] else 1
    return result[figure] / max(result["samples"], 1)


def first_seconds(setup, binary):
    """Of all processes next to two loops of a compiler, `record -a`: the share of whole stacks in the first 2 s, and later."""
    source, trace, seconds = setup.file("first.cc"), setup.file("first.pftrace"), 6 if setup.quick else 20
    measure.write_source(source, 0, 1)
    loop = f"while :; do clang++ -std=c++17 -O2 -c -o /dev/null {source}; done"
    loops = [subprocess.Popen(["sh", "-c", loop], start_new_session=True) for _ in range(2)]
    try:
        subprocess.run([binary, "record", "-q", "--no-daemon", "-a", "-F", "999", "-d", str(seconds), "-o", trace], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    finally:
        for p in loops:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
    shares = []
    for part in ("-2s", "2s-"):
        text = subprocess.run([setup.perfwind, "report", "--time", part, trace], capture_output=True, text=True, check=True).stdout
        shares.append(float(re.search(r"^Stacks +([0-9.]+) % whole", text, re.M)[1]) / 100)
    return shares


def measure_part(setup):
    rows = [["program", "way", "samples", "whole", "proved", "failed", "read within 100 us", "200 us", "1 ms"]]
    goals, result = [["figure", "found", "goal", ""]], {}
    ways = [(True, "at the sample", setup.perfwind)] if os.geteuid() == 0 else []
    ways.append((False, "after it", setup.perfwind))
    if setup.before:
        ways.append((False, "before, as it is", setup.before))
    for name, argv, wanted in programs(setup):
        for exact, way, binary in ways:
            r = result[f"{name} {way}"] = record(setup, argv, exact, binary)
            n = sum(r["reads"].values())
            soon = {us: sum(v for k, v in r["reads"].items() if k.startswith("below_") and int(k[6:-2]) <= us) for us in (100, 200, 1000)}
            rows.append([name, way, str(r["samples"]), f"{share(r, 'whole'):.2%}", f"{share(r, 'proved'):.2%}", str(r["failed"]),
                         *[f"{soon[us] / n:.0%}" if n else "" for us in (100, 200, 1000)]])
            if binary == setup.before:
                continue
            for figure, *bounds in wanted:
                goal, found = bounds[0 if exact else 1], share(r, figure)
                met = found <= goal if figure == "failed" else found >= goal
                what = {"right": "frames without a mark that are right"}.get(figure, f"stacks {figure}")
                goals.append([f"{name}, {way}: {what}", f"{found:.3%}", f"{goal:.2%}", "met" if met else "not met"])
            if n:
                goals.append([f"{name}, {way}: median from sample to read", "below 100 us" if soon[100] * 2 > n else "later",
                              "100 us, CPU idle", "met" if soon[100] * 2 > n else "not met"])
    if os.geteuid() == 0 and shutil.which("clang++"):
        first, later = result["-a first 2 s, later"] = first_seconds(setup, setup.perfwind)
        goals.append(["-a next to two compilers, the first 2 s: stacks whole", f"{first:.3%}", f"as later: {later:.2%}",
                      "met" if first >= later - 0.001 else "not met"])
        if setup.before:
            first, later = result["-a first 2 s, later, before"] = first_seconds(setup, setup.before)
            goals.append(["  before", f"{first:.3%}", f"later: {later:.2%}", ""])
    measure.table(rows)
    print()
    measure.table(goals)
    measure.goals([f"deep, {row[0]}", *row[1:]] for row in goals)
    return result
