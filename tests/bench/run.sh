#!/bin/bash
# run.sh BUILD [--json FILE] [PART...] - figures about a whole perfwind, as ratios measured in one run.  `make bench`.
#
#   cost      own CPU a sample against `perf record`         soak    every CPU busy, nothing lost, memory (SOAK_SECONDS=3600)
#   slowdown  what a profiled program loses                  size    bytes a sample, time from the stop to the end
#   first     start-up: time to the first sample, CPU        unwind  the engines on live samples (bench-unwind)
#   import    perf.data to a trace against `perf script`      hook      what consent costs a target
#   source    as a data source: own CPU a sample             start   `record -- /bin/true`; a second recording
#   marks     what a mark costs a program
#   deep      stacks deeper than 64 KB, as root and as an ordinary user has them
#   neighbour wake-ups, --max-cpu, perf record at the same time
#   runtimes  own CPU a sample of Python, PHP, Ruby, Java and node next to C
#
# Without names: all of them.  BENCH_QUICK=1: short runs, larger noise.  BENCH_BEFORE=PERFWIND: another build runs in turn
# with this one (cost, slowdown, start, import, deep, neighbour, unwind).  TRACED_PERF=DIR: a folder with traced, traced_perf and
# perfetto, for two more rows of cost: traced_perf, and perfwind's daemon as the data source of the same traced.  The table at the end has each figure with a goal.  Nothing is asserted: the
# exit status only states whether everything could be measured.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:?usage: run.sh BUILD [--json FILE] [PART...]}
shift
python=/usr/bin/python3
[ -x $python ] || python=$(command -v python3) || { echo "bench: python3 is missing" >&2; exit 1; }
exec "$python" tests/bench/bench.py --build "$build" --python "$python" "$@"
