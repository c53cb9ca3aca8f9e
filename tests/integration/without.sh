#!/bin/bash
# without.sh - the main tests again as on an old kernel: every newer facility is said to be missing.
. "$(dirname "$0")/lib"
need_perf
export PERFWIND_WITHOUT=all
here=$(dirname "${BASH_SOURCE[0]}")
for test in record-command record-pid record-all survive; do
	"tests/integration/$test.sh" >"$TMP/without.out" 2>&1
	status=$?
	if [ $status = 77 ]; then
		skip "without-$test" "$(tail -n 1 "$TMP/without.out")"
		continue
	fi
	sed -n "s/^ok /ok without-/p; s/^not ok /not ok without-/p; s/^skip /skip without-/p; /^    /p; /^verdict/p" "$TMP/without.out"
done
PERFWIND_WITHOUT=no-such-facility "$PERFWIND" record -o "$TMP/x" -- true 2>"$TMP/err"
check unknown-facility grep -q 'no-such-facility' "$TMP/err"
