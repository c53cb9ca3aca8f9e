"""judge.py CALLER=LEAF... - reads folded stacks.  A CALLER, as its source states, calls its LEAF and does nothing else.  So a sample with
CALLER in it is right where LEAF is the function that CALLER calls and the last one of the program, and where the innermost frame has a
name.  LEAF `*`: any function with a name.  Prints `leaf N PERCENT`, and the wrong stacks as comments; of calls within CALLER (its first instructions) there are too few to count."""
import re
import sys

PAIRS = dict(pair.split("=") for pair in sys.argv[1:])
OWN = set(PAIRS) | set(PAIRS.values())


def plain(frame):
    """Without the kind, the arguments, the file and the tier: V8's maps have ~ * ^ + before a name, and `name file:line`."""
    frame = re.sub(r"(_\[[0-9a-z]\]| \[[a-z0-9-]+\])$", "", frame)
    frame = re.sub(r"^(LazyCompile|Function|JS):[~*^+]?", "", frame)
    return frame.split(" ")[0]


def named(frame):
    return not frame.startswith(("[", "0x"))


total = right = 0
wrong = {}
for line in sys.stdin:
    stack, _, weight = line.rpartition(" ")
    frames, weight = stack.split(";"), int(weight)
    names = [plain(frame) for frame in frames]
    callers = [i for i, name in enumerate(names) if name in PAIRS]
    if not callers:
        continue
    at = callers[0]
    total += weight
    leaf = PAIRS[names[at]]
    if named(frames[-1]) and (leaf == "*" or (names[at + 1:at + 2] == [leaf] and not OWN & set(names[at + 2:]))):
        right += weight
    else:
        wrong[";".join(frames[at:])] = wrong.get(";".join(frames[at:]), 0) + weight
print("leaf %d %.2f" % (total, 100 * right / max(total, 1)))
for stack, weight in sorted(wrong.items(), key=lambda item: -item[1])[:5]:
    print("# %d %s" % (weight, stack[:200]))
