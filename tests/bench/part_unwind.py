"""part_unwind.py - the engines on the same live samples: nanoseconds a frame (bench-unwind.c)."""
import json
import os
import subprocess

import measure

TITLE = "unwinding alone, by engine, on the same live samples"


def measure_part(setup):
    program = os.path.join(setup.build, "bench-unwind")
    if not os.access(program, os.X_OK):
        raise measure.BenchError(f"{program} is not built")
    source, result = setup.file("unwind.cc"), {}
    measure.write_source(source, 1)
    for name, command in (("python3", [setup.python, os.path.join(measure.HERE, "work.py"), "150"]),
                          ("g++", ["g++", "-std=c++17", "-O2", "-c", "-o", setup.file("unwind.o"), source])):
        output = setup.file("unwind.json")
        p = subprocess.run([program, "--name", name, *(["-r", "3"] if setup.quick else []), "-o", output, "--", *command],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print("\n".join("  " + line for line in p.stdout.splitlines()))
        if p.returncode:
            raise measure.BenchError(f"bench-unwind: status {p.returncode}")
        if os.path.exists(output):
            with open(output) as f:
                result[name] = json.load(f)
    return result
