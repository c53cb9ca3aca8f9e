"""reused.py - reads `report --tree --csv` of reuse.php or reuse.rb: caller call_K calls functions phase_K and no others.  Prints for each
kind of function below a caller how many samples there are, and the shares that are named right, wrong without being marked as a guess, wrong
and marked, and not named."""
import csv
import re
import sys

rows = list(csv.DictReader(sys.stdin))
path = []
total = {"right": 0, "wrong": 0, "guessed": 0, "unnamed": 0}
for row in rows:
    depth = int(row["depth"])
    del path[depth:]
    path.append(row["name"])
    caller = re.search(r"\bcall_(\d)\b", path[depth - 1]) if depth else None
    n = float(row["total_samples"])
    if not caller or not n:
        continue
    found = re.search(r"phase_(\d)", row["name"])
    if not found:
        total["unnamed"] += n if re.search(r"^\[|unknown", row["name"]) else 0
    elif found.group(1) == caller.group(1):
        total["right"] += n
    else:
        guessed = n * float(row["guessed_percent"] or 0) / 100
        total["guessed"] += guessed
        total["wrong"] += n - guessed
n = sum(total.values())
for what, weight in total.items():
    print(what, int(n), "%.2f" % (100 * weight / max(n, 1)))
