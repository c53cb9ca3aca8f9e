#!/bin/bash
# without.sh - the integration tests again as on the oldest kernel: every newer facility is said to be missing.  Two run
# at a time, which is load for each other, too.
. "$(dirname "$0")/lib"
need_perf
export PERFWIND_WITHOUT=all
run_one() {
	"$INTEGRATION/$1.sh" >"$TMP/$1.out" 2>&1
	echo $? >"$TMP/$1.status"
}
tests="unwinders trace record-pid survive mappings processes record-all events record-command plain-user lives targets"
running=0
for test in $tests; do
	[ $running -lt 2 ] || { wait -n; running=$((running - 1)); }
	run_one $test &
	running=$((running + 1))
done
wait
for test in $tests; do
	status=$(cat "$TMP/$test.status")
	if [ "$status" = 77 ]; then
		skip "without-$test" "$(tail -n 1 "$TMP/$test.out")"
		continue
	fi
	sed -n "s/^ok /ok without-/p; s/^not ok /not ok without-/p; s/^skip /skip without-/p; /^    /p" "$TMP/$test.out"
	check "without-$test-ended" [ "$status" = 0 ]
done
PERFWIND_WITHOUT=no-such-facility "$PERFWIND" record -o "$TMP/x" -- true 2>"$TMP/err"
check unknown-facility grep -q 'no-such-facility' "$TMP/err"
