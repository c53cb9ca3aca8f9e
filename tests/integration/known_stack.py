#!/usr/bin/env python3
"""known_stack.py SEQUENCES LEAST < FOLDED: stacks of tests/programs/known-stack against the sequences that it printed (lines
of digits in SEQUENCES).  A stack that is cut must be a part of a sequence.  Of the others, at least LEAST per cent of
the samples must be whole and the beginning of a sequence."""
import re
import sys

sequences = [line.strip() for line in open(sys.argv[1]) if re.fullmatch(r"[0-7]{1000,}\n?", line)]
least = float(sys.argv[2])
total = right = 0
wrong = []
for line in sys.stdin:
    stack, _, count = line.rpartition(" ")
    frames = stack.split(";")
    digits = "".join(f[6] for f in frames if re.fullmatch("known_[0-7]", f))
    if len(digits) < 2:
        continue  # before the first sequence, or behind the last
    cut = "[cut]" in frames
    good = any(s.find(digits) >= 0 if cut else s.startswith(digits) for s in sequences)
    total += int(count)
    right += int(count) * (good and "_start" in frames)
    if cut and not good:
        wrong.append(line)
print(f"{len(sequences)} sequences; {right} of {total} samples whole and right; {len(wrong)} cut stacks wrong")
for line in wrong[:3]:
    print(line[:300])
sys.exit(bool(wrong) or not total or right * 100 < least * total)
