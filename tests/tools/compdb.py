#!/usr/bin/env python3
"""compdb.py - compile_commands.json out of the commands that `make -nB V=1` prints on standard input."""
import json, os, re, sys

entries = []
for line in sys.stdin.read().replace("\\\n", " ").splitlines():
    command = line.strip()
    compiled = re.search(r" -c -o \S+ (\S+\.cc?)$", command)
    linked = re.search(r" -shared .* -o \S+((?: \S+\.c)+)$", command)  # libraries for targets: one command compiles and links
    for source in [compiled.group(1)] if compiled else linked.group(1).split() if linked else []:
        entries.append({"directory": os.getcwd(), "command": command, "file": source})
json.dump(entries, sys.stdout, indent=1)
print()
sys.exit(not entries)
