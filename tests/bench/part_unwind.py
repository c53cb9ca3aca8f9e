"""part_unwind.py - the engines on the same live samples: nanoseconds a frame (bench-unwind.c), next to the floor of the same
run: the loads of the return addresses alone, all places known."""
import json
import os
import shutil
import subprocess

import measure

TITLE = "unwinding alone, by engine, on the same live samples"
GOAL_STREAMED = 1.3  # times the floor
GOAL_HOT = 6  # ns a frame
CMAKE = """function(go n)
  if(n GREATER 0)
    math(EXPR m "${n} - 1")
    string(REGEX REPLACE "a+" "b" text "aaa${n}aa")
    go(${m})
  endif()
endfunction()
foreach(i RANGE 1 4000)
  go(12)
endforeach()
"""
NODE = """let text = JSON.stringify(Array.from({length: 300}, (_, i) => ({name: 'n' + i, values: [i, i * 2, {deep: [i]}]})));
const end = Date.now() + 4000;
function walk(x) { return x && typeof x === 'object' ? Object.values(x).reduce((n, y) => n + walk(y), 1) : 1; }
let n = 0;
while (Date.now() < end) n += walk(JSON.parse(text)) + text.replace(/n(\\d+)/g, (m, d) => d).length;
console.log(n);
"""


def programs(setup):
    source = setup.file("unwind.cc")
    measure.write_source(source, 1)
    yield "python3", [setup.python, os.path.join(measure.HERE, "work.py"), "150"]
    yield "g++", ["g++", "-std=c++17", "-O2", "-c", "-o", setup.file("unwind.o"), source]
    if shutil.which("clang++"):
        yield "clang++", ["clang++", "-std=c++17", "-O2", "-c", "-o", setup.file("unwind.o"), source]
    for name, argv, text in (("cmake", ["cmake", "-P"], CMAKE), ("node", ["node"], NODE)):
        if shutil.which(name):
            script = setup.file(f"unwind.{name}")
            with open(script, "w") as f:
                f.write(text)
            yield name, [*argv, script]


def goals_of(name, found):
    native, floor = found["engines"]["native"], found["floor"]
    streamed, hot = native["ns_frame_streamed"], native["ns_frame_cached"]
    times = measure.ratio(streamed, floor["ns_frame_streamed"])
    yield [f"{name}: streamed, ns a frame; times the floor", f"{streamed:.1f}; {times:.2f}",
           f"{GOAL_STREAMED} x {floor['ns_frame_streamed']:.1f}", "met" if times <= GOAL_STREAMED else "not met"]
    yield [f"{name}: hot, ns a frame", f"{hot:.1f}", str(GOAL_HOT), "met" if hot <= GOAL_HOT else "not met"]


def run(setup, program, name, command, show=True):
    """What bench-unwind finds; None: no samples."""
    output = setup.file("unwind.json")
    if os.path.exists(output):
        os.unlink(output)
    p = subprocess.run([program, "--name", name, *(["-r", "3"] if setup.quick else []), "-o", output, "--", *command],
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if show or p.returncode:
        print("\n".join("  " + line for line in p.stdout.splitlines()))
    if p.returncode:
        raise measure.BenchError(f"{program}: status {p.returncode}")
    if not os.path.exists(output):
        return None
    with open(output) as f:
        return json.load(f)


def measure_part(setup):
    """The build before this one takes part where its bench-unwind is built (`make bench-unwind` makes it)."""
    program = os.path.join(setup.build, "bench-unwind")
    before = os.path.join(os.path.dirname(os.path.abspath(setup.before)), "bench-unwind") if setup.before else ""
    if not os.access(program, os.X_OK):
        raise measure.BenchError(f"{program} is not built")
    goals, result = [["figure", "found", "goal", ""]], {}
    for name, command in programs(setup):
        found = run(setup, program, name, command)
        if found:
            result[name] = found
            goals += goals_of(name, found)
        if os.access(before, os.X_OK):
            try:
                found = result[f"{name} before"] = run(setup, before, name, command, show=False)
                native = found["engines"]["native"]
                goals.append(["  before: streamed; hot", f"{native['ns_frame_streamed']:.1f}; {native['ns_frame_cached']:.1f}", "", ""])
            except (measure.BenchError, KeyError, TypeError) as e:
                print(f"  before: {e}")
    print()
    measure.table(goals)
    measure.goals([f"unwind, {row[0]}", *row[1:]] for row in goals)
    return result
