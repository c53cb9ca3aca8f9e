#!/bin/bash
# fallback.sh - the integration tests again as on the oldest kernel: every newer facility is reported as missing.  Two run
# at a time, which is load for each other, too.
. "$(dirname "$0")/lib"
need_perf
export PERFWIND_WITHOUT=all
two_at_a_time fallback/{unwinders,trace,record-pid,shutdown,mappings,processes,record-all,events,record-command,plain-user,pid-reuse,target-end}
PERFWIND_WITHOUT=no-such-facility "$PERFWIND" record -o "$TMP/x" -- true 2>"$TMP/err"
check unknown-facility grep -q 'no-such-facility' "$TMP/err"
