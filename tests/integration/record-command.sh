#!/bin/bash
# record-command.sh - a command's stacks carry the names its source gives them, and the figures add up.
. "$(dirname "$0")/lib"
need_perf

record recursion -- "$PROGRAMS/recursion"
check recursion-exit-status [ $? = 0 ]
check recursion-equation json recursion 'v["samples"] == total and v["samples"] > 100'
check recursion-whole json recursion 'v["stacks"]["whole"] >= 0.995 * total'
check recursion-accounted json recursion '0.9 <= v["cpu_accounted"] <= 1.05'
check recursion-nothing-lost json recursion 'v["lost"]["samples"] == 0 and v["lost"]["sideband"] == 0'
check recursion-file [ -s "$TMP/recursion.pftrace" ]

# The command's own exit status, as perf record gives it.
record status -- sh -c 'exit 7'
check status-own [ $? = 7 ]
record status -- sh -c 'kill -TERM $$'
check status-signal [ $? = 143 ]
record status -- /no/such/command
check status-127 [ $? = 127 ]
touch "$TMP/not-executable"
record status -- "$TMP/not-executable"
check status-126 [ $? = 126 ]
# Options end at the command: its own are not ours.
record own-options sh -c 'exit 3'
check status-without-dashes [ $? = 3 ]

# Children are followed, by name.
record children -- sh -c "$PROGRAMS/recursion; $PROGRAMS/qsort"
check children-first has children '^recursion;'
check children-second has children '^qsort;'

# An existing file is kept.
echo old >"$TMP/kept.pftrace"
record kept -- true
check old-file-kept grep -q old "$TMP/kept.pftrace.old"
# ... but not for a recording that cannot start.
echo precious >"$TMP/precious.pftrace"
record precious -e no-such-event -- true
check old-file-untouched grep -q precious "$TMP/precious.pftrace"
