#!/bin/bash
# watch.sh - a spike of two seconds, unattended: its episode names the guilty function, and the seconds before are there.
# The rule is measured on the process's own CPU time: calm it uses 2 % of a CPU, and of a busy machine it gets 10 % or more.
. "$(dirname "$0")/lib"
need_perf

cat >"$TMP/rules" <<-END
	[watch]
	record = -p PID -F 499 -e cpu-clock
	memory = 4M
	poll = 200ms
	busy-poll = 100ms
	exec = $TMP/ran
	[rule spin]
	when = process-cpu
	process = PID
	above = 8
	below = 5
	for = 500ms
	calm = 500ms
	before = 2s
	after = 300ms
	[rule quiet]
	when = load
	above = 1000000
END
printf '#!/bin/sh\nls "$1" >"%s/ran.txt"\n' "$TMP" >"$TMP/ran"
chmod 755 "$TMP/ran"

"$PROGRAMS/spike" 3 2 60 >/dev/null &
target=$!
started $target
sed -i "s/PID/$target/" "$TMP/rules"
check rules-are-valid "$PERFWIND" watch --check -c "$TMP/rules"
"$PERFWIND" watch -c "$TMP/rules" -d "$TMP/episodes/new" 2>"$TMP/watch.err" &
watch=$!
started $watch
kept() { [ "$("$PERFWIND" episodes -d "$TMP/episodes/new" 2>/dev/null | grep -c 'spin.*spike *guilty$')" = 1 ] || { cat "$TMP/watch.err"; return 1; }; }
check episode eval 'wait_for kept || wait_for kept' # on a busy machine 2 s of CPU time take 20 s
check exec wait_for grep -q '^flame.html$' "$TMP/ran.txt"
folder=$(echo "$TMP/episodes/new/"2*)
check modes [ "$(stat -c '%a' "$folder" "$folder/episode.json" "$folder/trace.pftrace" | tr '\n' ' ')" = "700 600 600 " ]
# The files, as their readers read them.
check files "$PYTHON" - "$folder" <<-'END'
	import json, sys
	folder = sys.argv[1]
	episode = json.load(open(folder + "/episode.json"))
	assert episode["rule"] == "spin" and episode["hottest"] == "guilty" and episode["process"] == "spike", episode
	assert 0.5 <= episode["lasting"] < 60 and episode["average"] > 5, episode
	def find(frames, name, depth=0):
	    for frame in frames:
	        assert set(frame) == {"frame", "proportion", "count", "children"}
	        assert 0 < frame["proportion"] <= 1 and frame["count"] >= sum(c["count"] for c in frame["children"])
	        if frame["frame"] == name: return frame
	        below = find(frame["children"], name)
	        if below: return below
	tree = json.load(open(folder + "/calltree.json"))
	guilty = find(tree, "guilty")
	assert guilty["proportion"] > 0.5, tree
	images = json.load(open(folder + "/images.json"))
	spike = [image for image in images if image["path"].endswith("/spike")]
	assert len(spike) == 1 and len(spike[0]["build_id"]) >= 32, images
	addresses = json.load(open(folder + "/calltree-addresses.json"))
	assert find(addresses, "nothing") is None and "spike+0x" in json.dumps(addresses)
	lines = [line.rstrip("\n").split(",", 2) for line in open(folder + "/episode.lines")]
	assert [line[0] for line in lines] == ["cpu-highload", "cpu-highload-stackframe"] and lines[0][1] == lines[1][1]
	value = json.loads(lines[0][2])
	assert set(value) == {"start", "lasting", "average"} and all(type(v) is str for v in value.values())
	assert value["start"] == lines[0][1] and json.loads(lines[1][2]) == tree
	assert "guilty" in open(folder + "/flame.html").read()
END
# The time before: the calm function's samples are in the trace.
check before sh -c "'$PERFWIND' report --json '$folder/trace.pftrace' | grep -q '\"function\": \"calm\"'"

# New rules: a wrong file changes nothing; the next one ends the rule.
printf '[rule x]\nwhen = laod\n' >"$TMP/rules"
kill -HUP $watch
check reload-refused wait_for grep -q "rules:2:8: 'laod' cannot be watched; did you mean load?" "$TMP/watch.err"
printf '[rule x]\nwhen = load\nabove = 99999\n' >"$TMP/rules"
kill -HUP $watch
check reload wait_for grep -q '1 rules are read again' "$TMP/watch.err"
kill -TERM $watch
wait $watch
check status [ $? = 0 ]
check no-recorder-left [ -z "$(ls -A "$TMP/episodes/new" | grep '^\.')" ]
name=$(basename "$folder")
check shown sh -c "'$PERFWIND' episodes -d '$TMP/episodes/new' show $name | grep -q '\"hottest\": \"guilty\"'"
check deleted "$PERFWIND" episodes -d "$TMP/episodes/new" delete "$name"
check nothing-left [ -z "$(ls -A "$TMP/episodes/new")" ]
printf '[watch]\nfolder = %s\n[rule x]\nwhen = load\nabove = 99999\n' "$TMP/episodes/new" >"$TMP/folder.rules"
"$PERFWIND" episodes -c "$TMP/folder.rules" 2>"$TMP/none.err"
check none-hint grep -q "no episodes in $TMP/episodes/new (hint: -d DIR or -c RULES" "$TMP/none.err"

# A mark of a program: the recorder counts it, the episode is the program's.
LD_PRELOAD=$O/libperfwind-marks.so "$PROGRAMS/marks" loop &
target=$!
started $target
wait_for grep -q loop "/proc/$target/cmdline"
wait_for grep -q perfwind-marks "/proc/$target/maps"
printf '[watch]\nrecord = -p %s -F 499 -e cpu-clock --armed\nmemory = 4M\npoll = 100ms\n[rule mark]\nwhen = mark\nmark = cat1\nlongest = 1s\nbefore = 0s\nafter = 0s\n[rule other]\nwhen = mark\nmark = cat\n' \
	$target >"$TMP/marks.rules"
"$PERFWIND" watch -c "$TMP/marks.rules" -d "$TMP/episodes/marks" 2>"$TMP/marks.err" &
watch=$!
started $watch
marked() { grep -q "\"pid\": $target,$" "$TMP/episodes/marks/"2*-mark/episode.json 2>/dev/null || { cat "$TMP/marks.err"; return 1; }; }
check mark wait_for marked
kill -TERM $watch
wait $watch
check mark-status [ $? = 0 ]
check mark-armed-has-samples sh -c "'$PERFWIND' report '$TMP/episodes/marks/'2*-mark/trace.pftrace | grep -qE '^Samples  *[1-9]'"
check mark-only-its-own [ -z "$(ls "$TMP/episodes/marks" | grep -- '-other$')" ]
check mark-in-the-trace sh -c "'$PERFWIND' report --by mark --json '$TMP/episodes/marks/'2*-mark/trace.pftrace | grep -q '\"mark\": \"cat1\"'"
printf '[rule x]\nwhen = hit\nevent = page-fualts\n' >"$TMP/marks.rules"
check event-position eval '! "$PERFWIND" watch -c "$TMP/marks.rules" -d "$TMP/episodes/marks" 2>"$TMP/marks.err"'
check event-nearest grep -q 'marks.rules:3:9: rule x: .*page-faults' "$TMP/marks.err"

mkdir "$TMP/episodes/new/other"
check only-episodes [ "$("$PERFWIND" episodes -d "$TMP/episodes/new" delete other ../new 2>&1 | grep -c 'there is no episode of this name')" = 2 ]
