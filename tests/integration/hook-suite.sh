#!/bin/bash
# hook-suite.sh - the test suite of another project has the same results with the hook loaded and many requests a second:
# CPython's own tests of processes, signals, threads and descriptors.  HOOK_SUITE="test_socket ..." takes others.
. "$(dirname "$0")/lib"
"$PYTHON" -c 'import test.test_fork1' 2>/dev/null || { echo "CPython's tests are not there (libpython3.N-testsuite)"; exit 77; }
modules=${HOOK_SUITE:-test_fork1 test_posix test_os test_pty test_select test_threadsignals}

# outcomes NAME : "test outcome", sorted.  A test's own output may stand before its outcome.
outcomes() {
	"$PYTHON" - "$TMP/$1.log" <<'PY'
import re, sys
found, name = {}, None
for line in open(sys.argv[1], errors="replace"):
    if m := re.match(r"(\w+) \((test\.[\w.]+)\)", line):
        name = f"{m[2]}.{m[1]}" if not m[2].endswith("." + m[1]) else m[2]
    if name and (m := re.search(r"(?:^|\.\.\. )(ok|FAIL|ERROR|skipped|expected failure)\b", line)):
        found[name], name = m[1], None
print(*(f"{key} {value}" for key, value in sorted(found.items())), sep="\n")
PY
}
suite() {
	local module tests=
	for module in $modules; do tests="$tests test.$module"; done
	mkdir "$TMP/$1.dir"
	(cd "$TMP/$1.dir" && TMPDIR=$TMP/$1.dir exec "${@:2}" "$PYTHON" -m unittest -v $tests) >"$TMP/$1.log" 2>&1 </dev/null
}

# Side by side: most of the time is waiting.
suite without env &
without=$!
suite with env PYTHONDONTWRITEBYTECODE=1 "$PYTHON" "$INTEGRATION/hook_asker.py" "$PERFWIND" 20 3>"$TMP/with.json"
with_status=$?
wait $without
without_status=$?
outcomes without >"$TMP/without.txt"
outcomes with >"$TMP/with.txt"
echo "$(wc -l <"$TMP/with.txt") tests; $(cat "$TMP/with.json")"
check suite-status [ $with_status = $without_status ]
check suite-same diff "$TMP/without.txt" "$TMP/with.txt"
check suite-tests [ "$(grep -c ' ok$' "$TMP/with.txt")" -gt 100 ]
# Each is asked again while it answers, so not every request has an answer of its own.
answered() {
	"$PYTHON" -c 'import json, sys; v = json.load(open(sys.argv[1]))
sys.exit(bool(v["wrong"]) or v["answers"] <= 20 or v["processes"] <= 1)' "$TMP/with.json" && return 0
	cat "$TMP/with.json"
	return 1
}
check suite-answers answered
