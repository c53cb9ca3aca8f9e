#!/bin/bash
# target-end.sh - processes that are not one running main thread from start to end.
. "$(dirname "$0")/lib"
need_perf

# The main thread is a zombie: mappings, memory and the end of the target are looked for at the others.
"$PROGRAMS/main-exits" 60 &
target=$!
started $target
wait_for used $target 20
record main-exits -p $target -d 1
check main-exits-status [ $? = 0 ]
check main-exits-stack has main-exits 'survivor;burn '
check main-exits-whole json main-exits 'v["stacks"]["whole"] >= 0.99 * total > 20'
check main-exits-consistent consistent main-exits
kill $target

# Children that outlive the process asked for are followed to their end.
"$PROGRAMS/orphan" 4 &
parent=$!
started $parent
record_in_background orphan --children -p $parent
recorder=$!
wait $parent
check orphan-goes-on kill -0 $recorder
check orphan-ends wait_for gone $recorder
check orphan-consistent consistent orphan
check orphan-stack has orphan 'main;child_work;burn '

# A mistyped command touches no file.
echo precious >"$TMP/precious.pftrace"
PATH=/usr/bin:/bin record precious -- no-such-command-here # a folder that may not be looked at makes it 126
check mistyped-status [ $? = 127 ]
check mistyped-keeps-file grep -q precious "$TMP/precious.pftrace"
record precious -- /etc/passwd
check not-executable-status [ $? = 126 ]
record precious -- /etc
check directory-status [ $? = 126 ]
