#!/usr/bin/env python3
"""compdb.py - compile_commands.json out of the commands that `make -nB V=1` prints on standard input."""
import json, os, re, sys

entries = []
for line in sys.stdin.read().replace("\\\n", " ").splitlines():
    command = line.strip()
    source = re.search(r" -c -o \S+ (\S+\.cc?)$", command)
    if source:
        entries.append({"directory": os.getcwd(), "command": command, "file": source.group(1)})
json.dump(entries, sys.stdout, indent=1)
print()
sys.exit(not entries)
