"""part_soak.py - every CPU busy with a parallel build, 4,000 Hz, 64 KB copies: is anything lost, does memory grow?

Rings are shared memory of the kernel: RssAnon does not count them, ru_maxrss does.
"""
import os
import time

import measure

TITLE = "4,000 Hz with 64 KB copies on every CPU (-a) under a parallel build"


def start_build(setup):
    folder = setup.file("project")
    os.mkdir(folder)
    names = []
    for i in range(60):
        if i % 3 == 0:
            measure.write_source(os.path.join(folder, f"s{i}.cc"), i)
        else:
            with open(os.path.join(folder, f"s{i}.c"), "w") as f:
                f.write("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n")
                f.writelines(f"int f{i}_{k}(const char *s, int n) {{ int sum = 0; for (int j = 0; j < n; j++) "
                             f"sum += s[j] * {k} ^ (int)strlen(s + j); printf(\"%d\", sum); return sum; }}\n"
                             for k in range(40))
        names.append(f"s{i}.o")
    with open(os.path.join(folder, "Makefile"), "w") as f:
        f.write(f"all: {' '.join(names)}\n%.o: %.c\n\tcc -O2 -c -o $@ $<\n%.o: %.cc\n\tc++ -std=c++17 -O2 -c -o $@ $<\n"
                "clean:\n\trm -f *.o\n")
    loop = f"while :; do make -s -C {folder} -j{setup.cpus * 2} all; make -s -C {folder} clean; done"
    return measure.Busy(["/bin/sh", "-c", loop])


def rss_anon_kb(pid):
    with open(f"/proc/{pid}/status") as f:
        for line in f:
            if line.startswith("RssAnon:"):
                return int(line.split()[1])
    return 0


def slope(points):
    """Of (seconds, kB) pairs, the least squares of the last two thirds: kB a minute.  Before, files are read for the first time."""
    points = points[len(points) // 3:]
    n = len(points)
    x, y = sum(t for t, _ in points) / n, sum(v for _, v in points) / n
    spread = sum((t - x) ** 2 for t, _ in points)
    return 60 * sum((t - x) * (v - y) for t, v in points) / spread if spread else 0.0


def measure_part(setup):
    """SOAK_SECONDS=3600 in the environment: an hour."""
    seconds = int(os.environ.get("SOAK_SECONDS", 10 if setup.quick else 60))
    points = []
    with start_build(setup):
        run = measure.perfwind(setup, ["-a"], seconds, 4000, ["--stack-bytes", "65528"],
                               each=lambda pid: points.append((time.monotonic(), rss_anon_kb(pid))))
    rss = [kb for _, kb in points]
    j = run.json
    total = j["samples"] + sum(j["skipped"].values()) + j["lost"]["samples"]
    stacks = j["stacks"]
    failed = sum(stacks["failed"].values())
    result = {"seconds": seconds, "json": j, "rss_anon_kb_max": max(rss), "rss_kb_per_minute": slope(points), "ru_maxrss_kb": run.usage.ru_maxrss,
              "cpu_s": run.cpu, "stop_s": run.stop_s}
    measure.table([
        ["", "figure", "share"],
        ["samples with a stack", f"{j['samples']}", f"{j['samples'] / max(total, 1):.3%}"],
        ["lost in the rings", f"{j['lost']['samples']}", f"{j['lost']['samples'] / max(total, 1):.3%}"],
        ["sideband lost", f"{j['lost']['sideband']}", ""],
        *[[f"skipped: {k}", f"{v}", f"{v / max(total, 1):.3%}"] for k, v in j["skipped"].items()],
        ["whole", f"{stacks['whole']}", f"{stacks['whole'] / max(j['samples'], 1):.3%}"],
        ["cut", f"{stacks['cut']}", f"{stacks['cut'] / max(j['samples'], 1):.3%}"],
        *[[f"failed: {k}", f"{v}", f"{v / max(j['samples'], 1):.3%}"] for k, v in stacks["failed"].items()],
        ["memory besides rings, most", f"{max(rss) / 1024:.1f} MiB", "150 MiB asked"],
        ["its growth after a third of the time", f"{slope(points):+.1f} kB a minute", "0 asked"],
        ["memory with rings, most", f"{run.usage.ru_maxrss / 1024:.1f} MiB", ""],
        ["own CPU a sample", f"{run.cpu / max(j['samples'], 1) * 1e6:.2f} us", ""],
        ["own CPU of one CPU", f"{run.cpu / run.wall:.1%}", ""],
        ["CPU accounted for", f"{j['cpu_accounted']}", ""],
        ["stop to end", f"{run.stop_s:.2f} s", ""],
        ["bytes a sample", f"{j['bytes'] / max(j['samples'], 1):.1f}", ""],
    ])
    result["failed_share"] = failed / max(j["samples"], 1)
    return result
