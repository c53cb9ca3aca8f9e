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
LD_PRELOAD=$O/libperfwind-marks.so "$PROGRAMS/marking" loop &
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

# The watched process ends while its episode is going on: the recorder hands over what it has, and watch ends.
"$PROGRAMS/spike" 3 600 0 >/dev/null &
target=$!
started $target
printf '[watch]\nrecord = -p %s -F 499 -e cpu-clock\nmemory = 4M\npoll = 200ms\n[rule spin]\nwhen = process-cpu\nprocess = %s\nabove = 8\nfor = 500ms\n' \
	$target $target >"$TMP/end.rules"
timeout 120 "$PERFWIND" watch -c "$TMP/end.rules" -d "$TMP/episodes/end" 2>"$TMP/end.err" &
watch=$!
started $watch
check end-fires eval 'wait_for grep -q "rule spin: process-cpu" "$TMP/end.err" || wait_for grep -q "rule spin: process-cpu" "$TMP/end.err"'
wait_for used $target $(($(cpu_ms $target) + 1000))
kill -KILL $target
wait $target 2>/dev/null
wait $watch
check end-status [ $? = 0 ]
# spin() is inlined in guilty(), and lines of inlined calls may be missing.
check end-episode eval '[ "$("$PERFWIND" episodes -d "$TMP/episodes/end" | grep -cE "spin.*spike *(guilty|spin)$")" = 1 ] || { cat "$TMP/end.err"; false; }'
check end-episode-of-guilty sh -c "'$PERFWIND' report --function guilty '$TMP/episodes/end/'2*-spin/trace.pftrace | grep -qE '^Samples  *[1-9]'"
check end-stated-once [ "$(grep -c 'the processes that the flight recorder sampled have ended; watch ends' "$TMP/end.err")" = 1 ]
check end-nothing-left [ -z "$(ls -A "$TMP/episodes/end" | grep '^\.')" ]

# A watch that is killed: its recorder ends with it.
"$PROGRAMS/spike" 3 600 600 >/dev/null &
target=$!
started $target
sed "s/^\(record = -p\) [0-9]*/\1 $target/; s/^process = .*/process = $target/" "$TMP/end.rules" >"$TMP/killed.rules"
"$PERFWIND" watch -c "$TMP/killed.rules" -d "$TMP/episodes/killed" 2>"$TMP/killed.err" &
watch=$!
samples() { ls -l "/proc/$(pgrep -P $watch)/fd" 2>/dev/null | grep -q perf_event; }
check killed-has-recorder wait_for samples
recorder=$(pgrep -P $watch)
started "${recorder:-none}"
kill -KILL $watch
wait $watch 2>/dev/null
check killed-recorder-ends wait_for gone "${recorder:-$$}"
check killed-nothing-left [ -z "$(ls -A "$TMP/episodes/killed")" ]
kill $target

# Options that the recorder does not take: found by --check, or at its first start.
ends_with() { timeout 60 "${@:2}" >"$TMP/ends.err" 2>&1; [ $? = "$1" ] || { cat "$TMP/ends.err"; return 1; }; }
options() { printf '[watch]\nrecord = %s\npoll = 100ms\n[rule x]\nwhen = load\nabove = 99999\n' "$1" >"$TMP/options.rules"; }
options '-a -F 49 --nosuch'
check option-check ends_with 2 "$PERFWIND" watch --check -c "$TMP/options.rules"
check option-named grep -q -- '--nosuch' "$TMP/ends.err"
options '-a -o elsewhere'
check option-file ends_with 2 "$PERFWIND" watch --check -c "$TMP/options.rules"
options "-p $$ --cpu x"
check option-start ends_with 2 "$PERFWIND" watch -c "$TMP/options.rules" -d "$TMP/episodes/options"
check option-start-named grep -q "record = -p $$ --cpu x" "$TMP/ends.err"

# An episode that is not kept: the next attempt comes a minute later.
options "-p $$ -e nosuch"
"$PERFWIND" watch -c "$TMP/options.rules" -d "$TMP/episodes/options" 2>"$TMP/retry.err" &
watch=$!
started $watch
wait_for grep -q 'starts again in 10 s' "$TMP/retry.err"
sed -i '/^when/d; s/^above.*/when = machine-cpu\nabove = 0.001\nfor = 0s\nlongest = 1s\nafter = 0s/' "$TMP/options.rules"
kill -HUP $watch
check retry eval 'wait_for grep -qE "no episode: the cooldown lasts ([1-5]?[0-9]|60) s more" "$TMP/retry.err" || { cat "$TMP/retry.err"; false; }'
kill -TERM $watch
wait $watch
if [ "$(id -u)" = 0 ]; then
	chmod 755 "$TMP"
	cp "$PERFWIND" "$TMP/perfwind"
	mkdir -m 700 "$TMP/plain"
	options '-p 1 -F 49'
	cp "$TMP/options.rules" "$TMP/plain/rules"
	chown -R 65534:65534 "$TMP/plain"
	setpriv --reuid 65534 --regid 65534 --clear-groups "$TMP/perfwind" watch -c "$TMP/plain/rules" -d "$TMP/plain/new" 2>"$TMP/plain.err" &
	watch=$!
	started $watch
	check hint-ends wait_for grep -q 'starts again in 10 s' "$TMP/plain.err"
	check hint-not-again eval '! grep "below .watch.*your own processes" "$TMP/plain.err"'
	kill -TERM $watch
	wait $watch
	# A full disk: no folder stays.
	mkdir "$TMP/small"
	printf '[watch]\nrecord = -p %s -F 499 -e cpu-clock\npoll = 100ms\n[rule x]\nwhen = machine-cpu\nabove = 0.001\nfor = 1s\nlongest = 1s\nafter = 0s\n' $$ >"$TMP/small.rules"
	unshare -m sh -c 'mount -t tmpfs -o size=64k none "$1/small" && mkdir "$1/small/new" && ! head -c 99999 /dev/zero >"$1/small/fill" || exit 99
		"$2" watch -c "$1/small.rules" -d "$1/small/new" 2>"$1/small.err" & watch=$!
		for i in $(seq 300); do grep -q "not kept" "$1/small.err" && break; sleep 0.1; done
		ls -A "$1/small/new" | grep "^.new" >"$1/small.left"; kill $watch; wait $watch' - "$TMP" "$PERFWIND" 2>/dev/null
	status=$?
	if [ $status = 99 ] || [ ! -e "$TMP/small.err" ]; then skip full-disk "no tmpfs can be mounted"; else
		check full-disk grep -q 'rule x: the episode is not kept' "$TMP/small.err"
		check full-disk-is-why grep -q 'No space left' "$TMP/small.err"
		check full-disk-nothing-left [ ! -s "$TMP/small.left" ]
	fi
fi
