#!/bin/bash
# targets.sh - processes that are not one running main thread from start to end.
. "$(dirname "$0")/lib"
need_perf

# The main thread is a zombie: mappings, memory and the end of the target are looked for at the others.
"$PROGRAMS/main-exits" 5 &
started $!
sleep 0.5
record main-exits -p $! -d 1
check main-exits-status [ $? = 0 ]
check main-exits-stack has main-exits 'survivor;burn '
check main-exits-whole json main-exits 'v["samples"] == total and v["stacks"]["whole"] >= 0.99 * total > 100'

# Children that outlive the process asked for are followed to their end.
"$PROGRAMS/orphan" 3 &
started $!
sleep 0.3
record orphan --children -p $!
check orphan-duration json orphan 'v["duration_s"] > 2'
check orphan-stack has orphan 'main;child_work;burn '

# A mistyped command touches no file.
echo precious >"$TMP/precious.pftrace"
record precious -- no-such-command-here
check mistyped-status [ $? = 127 ]
check mistyped-keeps-file grep -q precious "$TMP/precious.pftrace"
record precious -- /etc/passwd
check not-executable-status [ $? = 126 ]
record precious -- /etc
check directory-status [ $? = 126 ]
