"""outermost.py TIMES - reads what `perfwind script` prints of `leaves.py SECONDS TIMES` and prints the shares of samples with the right three
outermost functions of Python.  TIMES has when main() called left() and right() in turn, ns of the clock of the trace.  Near these times, as
a sample takes the program some time, main() may be the innermost function.

    three        the file's code, main and the function that ran at that time are shown
    three-in-c   the same of the stacks with sum() or max(), which only one of these functions calls
    not-wrong    these are shown, or the first ones and the loop's frame in place of one that is not known"""
import bisect
import re
import sys

MARGIN = 50_000
LOOP = "_PyEval_EvalFrameDefault"
MODULE = "<module leaves.py>"
FUNCTION = re.compile(r"\s+[0-9a-f]+ (?:py::(?:<module>:\S*/(leaves\.py)|([^:\s]*):)|(<module \S+>|\S+) \[python\] )")
SAMPLE = re.compile(r"\S.*\s(\d+)\.(\d{6}):")
C_CODE = {"builtin_sum", "builtin_max"}


def samples(lines):
    """The time of each, ns, its functions of Python and frames of the loop, outermost first, and the names of its code."""
    time, frames, names = None, [], set()
    for line in lines:
        sample = SAMPLE.match(line)
        if sample:
            time, frames, names = int(sample[1]) * 10**9 + int(sample[2]) * 1000, [], set()
        elif line.strip():
            function, name = FUNCTION.match(line), line.split()[1]
            names.add(name)
            if function or name == LOOP:
                frames.append((MODULE if function[1] else function[2] or function[3]) if function else LOOP)
        elif time:
            if any(name.startswith("py::") for name in names):  # the loop stands behind each trampoline
                frames = [frame for frame in frames if frame != LOOP]
            yield time, frames[::-1], names
            time = None


def judge(times, lines):
    total = {"three": 0, "three-in-c": 0, "not-wrong": 0}
    right = dict(total)
    for time, frames, names in samples(lines):
        i = bisect.bisect(times, time) - 1
        if i < 0 or i + 1 >= len(times):
            continue
        expected = [MODULE, "main", ("left", "right")[i & 1]]
        known = frames[:frames.index(LOOP)] if LOOP in frames[:3] else frames[:3]
        is_near = time < times[i] + MARGIN or time > times[i + 1] - MARGIN
        is_right = known == expected or (is_near and frames == expected[:2])
        has_gap = LOOP in frames[:3] and known == expected[:len(known)]
        for what, judged, ok in (("three", True, is_right), ("three-in-c", names & C_CODE, is_right),
                                 ("not-wrong", True, is_right or has_gap)):
            total[what] += bool(judged)
            right[what] += bool(judged and ok)
    for what, n in total.items():
        print("%s %d %.2f" % (what, n, 100 * right[what] / max(n, 1)))


if __name__ == "__main__":
    with open(sys.argv[1], encoding="ascii") as file:
        judge([int(word) for word in file.read().split()], sys.stdin)
